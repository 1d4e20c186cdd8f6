"""`cutaway top`: the engine in a terminal, live or replayed.

    find.py      which run is meant: a URL, a server on this machine, a recorded run
    live.py      follows a recorder            replay.py   plays a recorded run
    model.py     state and history at the cursor, the one thing that screens look at
    app.py       keys, places and the way back; frame.py: header, tabs, footer
    overview.py batch.py blocks.py requests.py request.py decisions.py help.py     one file a screen
    canvas.py theme.py glyphs.py numbers.py                                        how it is drawn

Never imports the engine or torch: whatever is shown came out of a trace.
"""
