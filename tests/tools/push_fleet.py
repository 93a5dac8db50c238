#!/usr/bin/env python3
"""push_fleet.py - gen_fleet.py --push for a Prometheus whose blocks are longer than the window.

Takes the same options. gen_fleet.py sends half an hour of all series at a time, as every Prometheus takes it; a head
block that spans the whole window also takes one series after the other, a day each, which takes half the time.
"""
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import gen_fleet

BATCH_BYTES = 4 << 20


def push(self, out, url):
    with ThreadPoolExecutor(max_workers=2) as pool:
        sent, body, size = [], [], 0

        def send():
            sent.append(pool.submit(gen_fleet.post, url, b"".join(body)))

        for name in sorted(out.fam):
            for labels, values, times, is_float in out.fam[name]:
                numbers = values.astype(np.float64)
                samples = gen_fleet.samples_pb(np.round(numbers, 6) if is_float else numbers, times).tobytes()
                for variant in self.variants(labels):
                    pairs = sorted([("__name__", name)] + [x for x in variant if x[1] != ""])
                    message = b"".join(
                        gen_fleet.field(1, gen_fleet.field(1, k.encode()) + gen_fleet.field(2, x.encode()))
                        for k, x in pairs)
                    self.series.add(hash(message))
                    self.samples += len(times)
                    body.append(gen_fleet.field(1, message + samples))
                    size += len(body[-1])
                    if size > BATCH_BYTES:
                        send()
                        body, size = [], 0
        if body:
            send()
        # The next day of a series must not overtake this one.
        for answer in sent:
            answer.result()


gen_fleet.Writer.push = push
gen_fleet.main()
