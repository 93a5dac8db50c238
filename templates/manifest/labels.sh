#!/bin/sh
# Node labels of pool {{ pool }} in cluster {{ cluster }} that no manifest of this repository holds.
# Run it as the merge request's rollout says: a node is cordoned and drained before its label changes.
set -eu
{% for label in labels -%}
kubectl label node {{ label }} --overwrite
{% endfor %}
