"""Solves the `nodes` instances of tests/cases/packing with OR-tools CP-SAT, for benches/pack.rs.

    python3 nodes.py FOLDER NAME...

The model: nodes that hold the same are one group, with how many of them are freed, touched or left alone. What the
cards of touched nodes can be cut into is written as the four rows of the closed form (one on the A30), so there is no
variable for a layout. Replicas on untouched nodes stay or leave. Three solves, one an objective, each with the ones
before as a constraint; two threads. Prints one JSON line an instance: name, objective, milliseconds from the parsed
file to the answer (the file is read before).
"""

import collections
import json
import pathlib
import sys
import time

from ortools.sat.python import cp_model


def ceil(a, b):
    return -(-a // b)


def slot_of(workload, model, policy):
    """Index of the smallest profile that fits; the number of profiles for a whole card."""
    _, _, _, _, memory, compute, mig_allowed = workload
    whole = len(model["profiles"])
    memory = ceil(memory * (100 + policy["memory_headroom_percent"]), 100)
    compute = min(1000, ceil(compute * (100 + policy["compute_headroom_percent"]), 100))
    if not mig_allowed or memory > model["whole"]["memory_mib"]:
        return whole
    for i, p in enumerate(model["profiles"]):
        if p["memory_mib"] >= memory and p["sm"] * 1000 >= compute * model["whole"]["sm"]:
            return i
    return whole


def rows_of(model):
    """Weights of the profiles and of the whole card, which is what one card has."""
    if model["memory_slices"] == 4:
        return [[1, 2, 4]]
    return [[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 3], [1, 2, 2, 4, 4, 8], [1, 1, 2, 3, 4, 7]]


def solve(instance, model):
    policy = instance["policy"]
    if policy["spread"] != "none":
        raise SystemExit("spread is not in this model")
    types = [p["name"] for p in model["profiles"]]
    n = len(types)
    workloads = instance["workloads"]["rows"]
    slot = [slot_of(w, model, policy) for w in workloads]
    planned = [max(w[1], w[2]) if policy["hpa"] == "max" else w[1] for w in workloads]

    groups = collections.Counter()
    present = collections.Counter()
    for node in instance["nodes"]:
        content = collections.Counter()
        for card in node["state"]:
            for where, who in [(n, card)] if isinstance(card, int) else [(types.index(p), w) for p, w in card]:
                content[where, slot[who] if who >= 0 else None] += 1
                if who >= 0:
                    present[who] += 1
        groups[node["gpus"], node["cost"], node["frozen"], tuple(sorted(content.items(), key=str))] += 1

    reserve = []
    for p in range(n + 1):
        surges = sorted((w[3] for w, s in zip(workloads, slot) if s >= p), reverse=True)
        reserve.append(sum(surges[: policy["concurrent_rollouts"]]))
    need = [sum(max(planned[i], present[i]) for i in range(len(slot)) if slot[i] >= p) for p in range(n + 1)]

    m = cp_model.CpModel()
    free = m.new_int_var(policy["spare_gpus"], sum(g[0] * k for g, k in groups.items()), "free")
    if instance["goal"] == "bill":
        m.add(free == policy["spare_gpus"])
    # Per type: slots on untouched nodes, and replicas that have left them or never had them.
    have, movers = [[] for _ in range(n + 1)], [[] for _ in range(n + 1)]
    fixed = [0] * (n + 1)
    cost, touched_nodes, restarts, pool, kept_gpus = [], [], [], [], []
    for (gpus, price, frozen, content), count in groups.items():
        freed = m.new_int_var(0, 0 if frozen else count, "")
        touched = m.new_int_var(0, 0 if frozen else count, "")
        untouched = count - freed - touched
        m.add(freed + touched <= count)
        cost.append(price * (count - freed))
        kept_gpus.append(gpus * (count - freed))
        touched_nodes.append(touched)
        pool.append(gpus * touched)
        for (where, own), k in content:
            have[where].append(k * untouched)
            if own is None:
                continue
            if own > where and frozen:
                # Stays where it does not fit: takes the slot, needs no other.
                have[where].append(-k * count)
                fixed[own] += k * count
                continue
            stay = m.new_int_var(0, k * count if own <= where else 0, "")
            m.add(stay <= k * untouched)
            if frozen:
                m.add(stay == k * count)
            have[where].append(-stay)
            movers[own].append(-stay)
            restarts.append(k * count - stay)
    cut = [m.new_int_var(0, 10**6, "") for _ in range(n)]
    whole = m.new_int_var(0, 10**6, "whole")
    for p in range(n + 1):
        given = sum(sum(have[q]) for q in range(p, n + 1)) + sum(cut[p:]) + whole
        wanted = need[p] + sum(sum(movers[q]) - fixed[q] for q in range(p, n + 1)) + reserve[p] + free
        m.add(given >= wanted)
    for row in rows_of(model):
        m.add(sum(w * c for w, c in zip(row, cut)) + row[-1] * whole <= row[-1] * sum(pool))

    objectives = [sum(cost), sum(touched_nodes), sum(restarts)]
    if instance["goal"] == "capacity":
        objectives.insert(0, sum(kept_gpus) - free)
    found = []
    for objective in objectives:
        m.minimize(objective)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 2
        solver.parameters.max_time_in_seconds = 120
        if solver.solve(m) != cp_model.OPTIMAL:
            raise SystemExit("not proven in 120 s")
        found.append(round(solver.objective_value))
        m.add(objective == found[-1])
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    models = json.loads((folder / "models.json").read_text())["models"]
    for name in sys.argv[2:]:
        instance = json.loads((folder / f"{name}.json").read_text())
        started = time.perf_counter()
        objective = solve(instance, models[instance["gpu_model"]])
        took = time.perf_counter() - started
        print(json.dumps({"name": name, "objective": objective, "milliseconds": round(took * 1000, 3)}), flush=True)


main()
