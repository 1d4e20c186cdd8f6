"""The palette as CSS variables, one block per theme: what styles and canvases both read.

Invariant: colours are named here and nowhere else in the browser; a request's hue is `--hue0` to `--hue11`.
"""

from workbench.look.palette import palette

FONT = (
    '-apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", Helvetica, Arial, "PingFang SC",'
    ' "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC",'
    ' "WenQuanYi Micro Hei", sans-serif'
)
MONO = (
    'ui-monospace, "SF Mono", "Cascadia Mono", "Noto Sans Mono", "Liberation Mono",'
    ' "Noto Sans Mono CJK SC", monospace'
)


def tokens_css() -> str:
    """Both themes; the document's `data-theme` chooses."""
    colours = palette()
    blocks = [f":root {{ --font: {FONT}; --mono: {MONO}; }}"]
    for theme in ("light", "dark"):
        lines = [f"--{name}: {value};" for name, value in colours["web"][theme].items()]
        lines += [f"--hue{i}: {value};" for i, value in enumerate(colours["hues"][theme])]
        blocks.append(f':root[data-theme="{theme}"] {{ color-scheme: {theme}; {" ".join(lines)} }}')
    return "\n".join(blocks) + "\n"
