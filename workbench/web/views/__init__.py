"""The views, one file each: what is laid out, what is asked, and what the server answers about it.

The canvases themselves are drawn in the browser (`assets/view_*.mjs`).
"""
