"""Reads pictures with Python's own XML parser: a JSON list of SVG texts on standard input, what each shows on standard output.

A text that is not well-formed ends the program. Knows nothing of how the pictures are drawn but their classes.
"""

import json
import sys
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def classes(element):
    return element.get("class", "").split()


def below(element, tag, name):
    return [one for one in element.iter(SVG + tag) if name in classes(one)]


def texts(element):
    return [{"class": one.get("class", ""), "x": int(one.get("x")), "y": int(one.get("y")), "text": one.text or ""}
            for one in element.iter(SVG + "text")]


def piece(group):
    area = below(group, "rect", "area")[0]
    title = group.find(SVG + "title")
    return {
        "class": group.get("class"),
        "x": int(area.get("x")),
        "y": int(area.get("y")),
        "width": int(area.get("width")),
        "title": title.text or "",
        "texts": [one["text"] for one in texts(group)],
        "patterns": sum(1 for rect in group.iter(SVG + "rect") if rect.get("fill", "").startswith("url(")),
    }


def side(node, name):
    gpus = [group for group in node if {"gpu", name} <= set(classes(group))]
    return [[piece(group) for group in gpu if group.tag == SVG + "g"] for gpu in gpus]


def look(text):
    root = ElementTree.fromstring(text)
    everything = list(root.iter())
    ids = {one.get("id"): one for one in everything if one.get("id")}
    return {
        "size": [int(root.get("width")), int(root.get("height"))],
        "role": root.get("role"),
        "title": ids[root.get("aria-labelledby")].text,
        "desc": ids[root.get("aria-describedby")].text,
        "ids": sorted(ids),
        "used": sorted({one.get("fill")[5:-1] for one in everything if one.get("fill", "").startswith("url(#")}),
        "tags": sorted({one.tag.removeprefix(SVG) for one in everything}),
        "attributes": sorted({name for one in everything for name in one.keys()}),
        "nodes": [{
            "name": below(node, "text", "name")[0].text,
            "today": side(node, "today"),
            "then": side(node, "then"),
            "texts": texts(node),
        } for node in below(root, "g", "node")],
        "texts": texts(root),
        "paths": {name: [one.get("d") for one in below(root, "path", name)] for name in ("usable", "need", "peaks")},
        "peak": [[one.get("cx"), one.get("cy")] for one in below(root, "circle", "peak")],
        "gaps": [one.find(SVG + "title").text for one in below(root, "g", "gap")],
    }


json.dump([look(text) for text in json.load(sys.stdin)], sys.stdout)
