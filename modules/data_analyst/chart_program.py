"""Draws one chart as PNG, in the sandbox: reads it as JSON from standard input, writes the image to standard output."""

import io
import json
import sys
from typing import Any

REFUSED = 3
SIZE_INCHES, DOTS_PER_INCH = (9, 5), 120


def main() -> None:
    """Draw the chart; the status is `REFUSED` when matplotlib is missing."""
    chart = json.load(sys.stdin)
    try:
        image = _draw(chart)
    except ImportError:
        sys.stderr.write("matplotlib is missing")
        sys.exit(REFUSED)
    sys.stdout.buffer.write(image)


def _draw(chart: dict[str, Any]) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    # A name between dollar signs would be read as a formula.
    labels, values = [_plain(label) for label in chart["labels"]], chart["values"]
    if chart["kind"] == "pie":
        axes.pie(values, labels=labels, autopct="%1.1f%%", startangle=90, counterclock=False)
    else:
        places = range(len(labels))
        if chart["kind"] == "line":
            axes.plot(places, values, marker="o")
        else:
            axes.bar(places, values)
        is_long = sum(map(len, labels)) > 60
        axes.set_xticks(places, labels, rotation=45 if is_long else 0, ha="right" if is_long else "center")
        axes.ticklabel_format(axis="y", style="plain", useOffset=False)
        axes.grid(visible=True, axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.set_ylabel(_plain(chart["measure"]))
    axes.set_title(_plain(chart["title"]), wrap=True)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()


def _plain(text: str) -> str:
    return text.replace("$", r"\$")


if __name__ == "__main__":
    main()
