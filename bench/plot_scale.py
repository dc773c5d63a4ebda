#!/usr/bin/env python3
"""Draws the output of mobula-bench-scheduler as an SVG: time per decision over the number of nodes.

Usage: build/release/bin/mobula-bench-scheduler | bench/plot_scale.py > docs/scheduler-scale.svg
Both axes are logarithmic. The dashed line starts at the first median and grows with the logarithm of the number
of nodes. A median that stays below it grows no faster.
"""
import math
import sys

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 400, 60, 50, 30, 170
SERIES = [("place50", "placement, median", "#1b6ca8"), ("place99", "placement, 99th percentile", "#7fb2d6"),
          ("refuse50", "refusal, median", "#a83c1b"), ("refuse99", "refusal, 99th percentile", "#d69a7f")]


def rows_of(lines):
    names = None
    for line in lines:
        words = line.split()
        if words[:2] == ["nodes", "slots"]:
            names = line.replace("fill s", "fill").split()
        elif names and len(words) == len(names):
            yield dict(zip(names, map(float, words)))


def main():
    rows = list(rows_of(sys.stdin))
    if len(rows) < 2:
        print("plot_scale: this is no table of mobula-bench-scheduler", file=sys.stderr)
        return 1
    low_x, high_x = math.log10(rows[0]["nodes"]), math.log10(rows[-1]["nodes"])
    highest = max(row[key] for row in rows for key, _, _ in SERIES)
    high_y = math.ceil(math.log10(highest))

    def x(nodes):
        return LEFT + (math.log10(nodes) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)

    def y(us):
        return HEIGHT - BOTTOM - math.log10(max(us, 1)) / high_y * (HEIGHT - BOTTOM - TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18">µs per decision of the scheduler, by the number of nodes</text>']
    for power in range(high_y + 1):
        at = y(10 ** power)
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10 ** power}</text>')
    for row in rows:
        at = x(row["nodes"])
        out.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{int(row["nodes"]):,}</text>')
    first = rows[0]
    logarithm = " ".join(
        f'{x(row["nodes"]):.1f},{y(first["place50"] * math.log(row["nodes"]) / math.log(first["nodes"])):.1f}' for row in rows)
    out.append(f'<polyline points="{logarithm}" fill="none" stroke="#888" stroke-dasharray="5 4"/>')
    for number, (key, name, color) in enumerate(SERIES):
        points = " ".join(f'{x(row["nodes"]):.1f},{y(row[key]):.1f}' for row in rows)
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{TOP + 20 + 18 * number}" fill="{color}">{name}</text>')
    out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{TOP + 20 + 18 * len(SERIES)}" fill="#888">growth as the logarithm</text>')
    out.append("</svg>")
    print("\n".join(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
