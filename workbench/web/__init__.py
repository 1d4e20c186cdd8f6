"""The workbench in the browser: recorded and live runs, drawn as pictures that can be asked why.

    command   `cutaway web`                app       one FastAPI server: data routes, and Dash for the pages
    library   which runs there are         data      windows of a run as JSON, made for drawing
    pages     what Dash lays out           views     one file per view: its query, its layout, its callbacks
    assets    what draws and moves: small modules of plain JavaScript, loaded as they are

The server lays out pages and answers queries. Everything that moves happens in the browser: one time cursor,
canvases drawn from the rows that the data routes sent, and the same code for a recorded run and for the live
stream. Read on in `app`, then `assets/main.mjs`.

Invariant: only `tracing` is asked, never the engine; a run replays where torch is not installed.
"""
