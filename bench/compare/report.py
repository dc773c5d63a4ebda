#!/usr/bin/env python3
"""Writes docs/performance.md and docs/performance.svg from the results of run.py.

Every figure of the page comes from the results. Every other sentence comes from performance.md.in, in which
{{name}} stands for a generated part. A comment `<!-- note KEY: text -->` is the page's note on the comparability
of that row.
Usage: bench/compare/report.py RESULTS.json [OUT_DIRECTORY]
"""
import json
import math
import re
import statistics
import sys
from html import escape
from pathlib import Path

from definitions import BARS, PEERS, RAY, ROWS

HERE = Path(__file__).resolve().parent
TEMPLATE = HERE / "performance.md.in"
TUNE = HERE / "tune_results.json"
SPINNING = "round trip of two spinning processes"  # the floor that rows do not name


# ---- figures -------------------------------------------------------------------------------------

def figures(results, peer, key):
    """{round: figure} of a peer, for the rounds with a measurement."""
    return {turn["round"]: turn["figures"][key] for turn in results["turns"]
            if turn["peer"] == peer and key in turn["figures"]}


def means(results, peer, key):
    return {number: figure["mean"] for number, figure in figures(results, peer, key).items()}


def ratios(results, row):
    """Mobula relative to the better of Ray's two APIs, for each round that has both. Above 1, Mobula is ahead."""
    out = []
    rays = [means(results, peer, row.key) for peer in RAY]
    for number, ours in means(results, "mobula", row.key).items():
        theirs = [ray[number] for ray in rays if number in ray]
        if not theirs or not ours or not min(theirs):
            continue
        out.append(min(theirs) / ours if row.less_is_better else ours / max(theirs))
    return out


def measured(results, bar):
    """The measured value of a bar that is not a multiple of Ray, for each round."""
    ours = figures(results, "mobula", bar.key)
    if not bar.against:
        return [figure["mean"] for figure in ours.values()]
    if bar.against == "floor":
        return [figure["mean"] / figure["floor"]["value"] for figure in ours.values()
                if figure.get("floor")]
    theirs = means(results, "grpc", bar.against)
    return [figure["mean"] / theirs[number] for number, figure in ours.items() if number in theirs]


def verdict(values, bound, less_is_better=False):
    """Met only if the median meets it. Also reports whether single rounds disagree."""
    if not values:
        return "not measured"
    def meets(value):
        return value <= bound if less_is_better else value >= bound
    good = sum(map(meets, values))
    if meets(statistics.median(values)):
        return "met" if good == len(values) else f"met, in {good} of {len(values)} rounds"
    return "**missed**" if good == 0 else f"**missed**, met in {good} of {len(values)} rounds"


# ---- words ---------------------------------------------------------------------------------------

def number(value):
    """Three significant digits, with thousands separators: 48,200 or 0.0513."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


def spread(values, unit=""):
    """The median, followed by the lowest and the highest value."""
    if not values:
        return "–"
    text = number(statistics.median(values)) + (f" {unit}" if unit else "")
    return text if len(values) == 1 else f"{text} ({number(min(values))}–{number(max(values))})"


def unit_of(results, key):
    for turn in results["turns"]:
        if key in turn["figures"]:
            return turn["figures"][key]["unit"].replace("1/s", "/s")
    return ""


def floor_of(results, key):
    floors = [figure["floor"] for figure in figures(results, "mobula", key).values()
              if figure.get("floor")]
    if not floors:
        return "–"
    median = statistics.median(floor["value"] for floor in floors)
    name = "" if floors[0]["name"] == SPINNING else f', {floors[0]["name"]}'
    return f'{number(median)} {floors[0]["unit"].replace("us", "µs")}{name}'


def table_of(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def measured_rows(results):
    return [row for row in ROWS if any(row.key in turn["figures"] for turn in results["turns"])]


# ---- parts of the page ---------------------------------------------------------------------------

def machine(results):
    of = results["machine"]
    loads = [turn[when] for turn in results["turns"] for when in ("load_before", "load_after")]
    others = [turn["cores_of_others"] for turn in results["turns"]]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    count = max(turn["round"] for turn in results["turns"])
    rounds = "one round" if count == 1 else f"{count} rounds"
    text = (f'Measured on {results["date"]}, in {rounds}, on {of["cpu"]} with {of["cores"]} cores '
            f'and {of["memory_gib"]:.0f} GiB, {of["kernel"]}. Versions: {versions}. The load '
            f'average was {min(loads):.1f} to {max(loads):.1f}, including the benchmarks. '
            f'Other processes used {min(others):.2f} to {max(others):.2f} of its '
            f'{of["cores"]} cores during a turn.')
    if max(others) > 0.1 * of["cores"]:
        text += (' **On this machine other work ran**: it was loaded, and the ratios are rough.')
    if results["quick"]:
        text += (' **Shortened runs** (`--quick`): 0.5 s to settle, 0.3 s to warm up, four runs of '
                 '0.5 s. Ray has a tenth of the batches of "4 clients" and "n to n", and 20 actors '
                 'instead of 200.')
    return text


def table(results):
    out = []
    for row in measured_rows(results):
        each = [spread(list(means(results, peer, row.key).values()))
                for peer in PEERS if peer != "grpc"]
        ratio = ratios(results, row)
        out.append([f"{row.title} (`{row.key}`)", unit_of(results, row.key),
                    floor_of(results, row.key), *each, spread(ratio),
                    f"{row.bar:g}" if row.bar else "–",
                    verdict(ratio, row.bar) if row.bar else "–"])
    header = ["benchmark", "unit", "floor",
              *(name for peer, name in PEERS.items() if peer != "grpc"),
              "times Ray", "bar", "bar met?"]
    return table_of(header, out)


def other_bars(results):
    out = []
    for bar in BARS:
        values = measured(results, bar)
        sign = "≤" if bar.less_is_better else "≥"
        out.append([bar.title, spread(values), f"{sign} {bar.bound:g}",
                    verdict(values, bar.bound, bar.less_is_better)])
    return table_of(["measure", "Mobula", "bar", "bar met?"], out)


def grpc_table(results):
    keys = ["grpc_unary_echo_sync", "grpc_unary_echo_async"]
    titles = ["one at a time", "1,000 outstanding"]
    rows = [[title, spread(list(means(results, "grpc", key).values()))]
            for title, key in zip(titles, keys)]
    return table_of(["gRPC C++ unary echo", "calls a second"], rows)


def reading(results, row, notes):
    """Failures and the note of a row. Empty if it has neither."""
    failures = {(PEERS[turn["peer"]], turn["failed"][row.key]) for turn in results["turns"]
                if row.key in turn["failed"]}
    texts = [f"{peer} failed: {escape(why, quote=False)}." for peer, why in sorted(failures)]
    if row.key in notes:
        texts.append(notes[row.key])
    return f"- **{row.title}**: {' '.join(texts)}" if texts else ""


def skipped(results):
    if not results["skipped"]:
        return "Every peer was present."
    return "\n".join(f"- {PEERS[peer]} was left out: {why}"
                     for peer, why in results["skipped"].items())


def tune(found):
    """Speed and results of Tune next to its peers, from the files that bench/tune/tune_speed.py and tune_quality.py write."""
    def figure(row, side):
        value = row[side]
        return value if isinstance(value, str) else f"{number(value)} {row['unit']}"
    speed = [[row["name"], *(figure(row, side) for side in ("mobula", "ray", "optuna")),
              "–" if row["ratio"] is None else number(row["ratio"]), row["bar"]] for row in found["speed"]]

    def side(quartiles):
        low, middle, high = (f"{value:.3g}" for value in quartiles)
        return f"{middle} ({low}–{high})"
    quality = [[row["searcher"], row["task"], str(row["trials"]), side(row["mobula"]), side(row["peer"]),
                f"{row['p_worse']:.3f}", f"{row['p_better']:.3f}"] for row in found["quality"]]
    return "\n\n".join([
        f"Speed, measured on {found['speed_conditions']}.",
        table_of(["figure", "Mobula", "Ray Tune", "Optuna", "times better", "bar"], speed), found["summary"],
        table_of(["searcher", "function", "trials", "Mobula", "peer", "p worse", "p better"], quality)])


def page(results, template):
    notes = {match[1]: " ".join(match[2].split())
             for match in re.finditer(r"<!-- note (\S+): (.*?) -->\n*", template, re.S)}
    text = re.sub(r"<!-- .*? -->\n*", "", template, flags=re.S)
    parts = {
        "machine": machine(results), "table": table(results), "other_bars": other_bars(results),
        "grpc": grpc_table(results), "skipped": skipped(results),
        "tune": tune(json.loads(TUNE.read_text(encoding="utf-8"))),
        "readings": "\n".join(filter(None, (reading(results, row, notes) for row in measured_rows(results)))),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


# ---- the picture ---------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, TOP, STEP, BOTTOM = 820, 320, 40, 60, 24, 50
AHEAD, BEHIND, BAR = "#1b6ca8", "#a83c1b", "#222"


def picture(results):
    """One line per benchmark on a logarithmic axis: range and median of the rounds, and the bar."""
    rows = [(row, values) for row in measured_rows(results) if (values := ratios(results, row))]
    shown = [value for row, values in rows for value in (*values, row.bar or 1)] + [1]
    low = math.floor(math.log10(min(shown)))
    high = max(low + 1, math.ceil(math.log10(max(shown))))
    height = TOP + STEP * len(rows) + BOTTOM

    def x(ratio):
        return LEFT + (math.log10(ratio) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           '<text x="16" y="20" font-size="14">Mobula, as a multiple of the better of Ray’s '
           f'Python and C++ ({escape(results["date"])}'
           f'{", shortened runs" if results["quick"] else ""})</text>',
           '<text x="16" y="40" fill="#555">dot: median of the rounds; line: lowest to highest; '
           'tick: the bar</text>']
    for power in range(low, high + 1):
        at = x(10 ** power)
        out.append(f'<path d="M{at:.1f} {TOP - 8}V{height - BOTTOM}" '
                   f'stroke="{"#888" if power == 0 else "#ddd"}"/>')
        out.append(f'<text x="{at:.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">'
                   f'{10 ** power:,g}×</text>')
    for place, (row, values) in enumerate(rows):
        at = TOP + STEP * place + STEP / 2
        middle = statistics.median(values)
        color = AHEAD if row.bar is None or middle >= row.bar else BEHIND
        out.append(f'<text x="{LEFT - 12}" y="{at + 4:.1f}" text-anchor="end">'
                   f'{escape(row.title)}</text>')
        out.append(f'<path d="M{x(min(values)):.1f} {at:.1f}H{x(max(values)):.1f}" '
                   f'stroke="{color}" stroke-width="3"/>')
        out.append(f'<circle cx="{x(middle):.1f}" cy="{at:.1f}" r="5" fill="{color}"/>')
        if row.bar:
            out.append(f'<path d="M{x(row.bar):.1f} {at - 8:.1f}V{at + 8:.1f}" stroke="{BAR}" '
                       'stroke-width="2"/>')
    out.append(f'<text x="{LEFT}" y="{height - 10}" fill="{AHEAD}">bar met, or none set</text>')
    out.append(f'<text x="{LEFT + 160}" y="{height - 10}" fill="{BEHIND}">bar missed</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def write(results, directory):
    directory.mkdir(parents=True, exist_ok=True)
    template = TEMPLATE.read_text(encoding="utf-8")
    (directory / "performance.md").write_text(page(results, template), encoding="utf-8")
    (directory / "performance.svg").write_text(picture(results), encoding="utf-8")


def main():
    if len(sys.argv) not in (2, 3):
        print("usage: report.py RESULTS.json [OUT_DIRECTORY]", file=sys.stderr)
        return 2
    results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    write(results, Path(sys.argv[2]) if len(sys.argv) == 3 else HERE.parent.parent / "docs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
