-- What wrk sends for benches/hooks.rs: deliveries from a folder, each once.
--
--     wrk ... -s load.lua URL -- FOLDER FIRST DELAY
--
-- FOLDER holds `before`, `after` and `signatures`: delivery N is signed by the N-th 64 digits, and its body is `before`, the
-- number of the comment, `after`; the first comment is 100000000000. Starts with delivery FIRST; each connection waits DELAY ms before it sends the next.

local before, after, signatures
local n, wait
local headers = {["content-type"] = "application/json", ["x-github-event"] = "issue_comment"}

local function read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read("*a")
    file:close()
    return text
end

function init(args)
    before = read(args[1] .. "/before")
    after = read(args[1] .. "/after")
    signatures = read(args[1] .. "/signatures")
    n = tonumber(args[2])
    wait = tonumber(args[3])
end

function delay()
    return wait
end

function request()
    headers["x-hub-signature-256"] = "sha256=" .. signatures:sub(n * 64 + 1, n * 64 + 64)
    headers["x-github-delivery"] = string.format("delivery-%d", n)
    local body = before .. string.format("%d", 100000000000 + n) .. after
    n = n + 1
    return wrk.format("POST", nil, headers, body)
end

function done(summary, latency, requests)
    local failed = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write
        + summary.errors.timeout
    io.write(string.format("figures %d %d %d %d\n", summary.requests, summary.duration, failed, latency:percentile(99)))
end
