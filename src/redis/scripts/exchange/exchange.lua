
-- ARGV      holder, window, plus, minus, before_plus, before_minus: what it admitted; oldest: states
--           from before this window go; life in ms; the region whose states are asked for, or "";
--           the length in ns that windows are numbered by
-- reply     plus, minus, before_plus, before_minus of all others in the holder's windows; how many
--           they are; then name and state of each one of the region, the holder's own included

local holder, window, oldest, region = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[7]), ARGV[9]
local own = {window, tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])}
local reply = {0, 0, 0, 0, 0}

-- A state goes only if it is old by the clock of Redis as well: a holder whose clock is ahead must not
-- delete the states of all others. Neither must a Redis whose clock is ahead of all holders. Twice as
-- far back, since the months of a calendar differ in length.
local time = redis.call('TIME')
local here = math.floor((time[1] * 1000000000 + time[2] * 1000) / tonumber(ARGV[10]))
oldest = math.min(oldest, here - 2 * (window - oldest))

local function add(to, plus, minus)
	reply[to] = math.min(reply[to] + plus, MOST)
	reply[to + 1] = math.min(reply[to + 1] + minus, MOST)
end

-- Of another's two windows those that are one of ours.
local function count(its, plus, minus, before_plus, before_minus)
	if its == window then
		add(1, plus, minus)
		add(3, before_plus, before_minus)
	elseif its == window + 1 then
		add(1, before_plus, before_minus)
	elseif its == window - 1 then
		add(3, plus, minus)
	end
	reply[5] = reply[5] + 1
end

local function tell(name, text)
	if region ~= '' and string.sub(name, 1, #region) == region then
		reply[#reply + 1] = name
		reply[#reply + 1] = text
	end
end

local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
	local name, a, b, c, d, e = stored[i], parse(stored[i + 1])
	if name == holder then
		own = a and merge(own, {a, b, c, d, e}) or own
	elseif not a or a < oldest then
		redis.call('HDEL', KEYS[1], name)
	else
		count(a, b, c, d, e)
		tell(name, stored[i + 1])
	end
end
tell(holder, write(holder, own))
redis.call('PEXPIRE', KEYS[1], ARGV[8])
return reply
