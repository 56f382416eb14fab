
-- Main part of the take script: reads all limits, decides on them together, and writes the changes.
local limits, all, outside, out = {}, true, false, nil
while ARGV[at + 1] do
	local l = read_limit(KEYS[#limits + 1])
	fetch(l)
	limits[#limits + 1] = l
end

local time = redis.call('TIME')
now = tonumber(time[1]) * 1000000 + tonumber(time[2])
if limits[1].reset then
	for i = #limits + 1, #KEYS do
		redis.call('DEL', KEYS[i])
	end
end
for _, l in ipairs(limits) do
	if l.reset then
		wipe(l)
	end
	load(l)
	if l.lent then
		out = out or lent()
		out.account_lent(l)
	end
	decide(l)
	all = all and l.fit > 0
	outside = outside or l.outside
end

-- A claim takes the marker of a reservation, and settles the limits after it if the marker was not
-- taken before. A limit whose windows have ended is left out.
if limits[1].claim then
	all, outside = limits[1].fit > 0, limits[1].outside
end
local known = outside or (limits[1].claim and not all)
	or (limits[1].report and was_reported(limits[1].report))

local reply, last = {now}, 5 * #limits + 1
for i, l in ipairs(limits) do
	local verdict, remaining, retry, reset = OUTSIDE, 0, 0, 0
	if not l.outside then
		if not known then
			apply(l, all)
		end
		if l.lent and l.cost < 0 then
			out.account_lent(l)
		end
		reset = l.kind.reset(l)
		if l.soft then
			reset = math.max(reset, l.soft.rearm_after(l))
		end
		reset = l.lent and out.gone_after(l, reset) or reset
		remaining = left(l, l.lent_entries)
		if l.fit < l.times then
			retry = retry_after(l)
			if l.lent_entries > 0 and retry >= 0 then
				retry = math.max(retry, out.back_after(l))
			end
		end
		verdict = verdict_of(l)
		if l.changed or l.noted then
			store(l, reset)
		end
	end
	local to = 5 * i - 4
	reply[to + 1], reply[to + 2], reply[to + 3] = verdict, remaining, retry
	reply[to + 4], reply[to + 5] = reset, all and charged_after(l) or 0
	if l.proof and l.cost > 0 then
		last = last + 1
		reply[last] = given_now(l)
	end
end
return reply
