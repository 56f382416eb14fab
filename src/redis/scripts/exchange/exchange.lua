
-- ARGV      holder, window, plus, minus, before_plus, before_minus: what it admitted; oldest: states
--           from before this window go; life in ms; the region whose states are asked for, or ""
-- reply     plus, minus, before_plus, before_minus of all others in the holder's windows; how many
--           they are; then name and state of each one of the region, the holder's own included

local holder, window, oldest, region = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[7]), ARGV[9]
local own = {window, number(ARGV[3]), number(ARGV[4]), number(ARGV[5]), number(ARGV[6])}
local reply = {0, 0, 0, 0, 0}

-- Adds two numbers of a state to two of the reply.
local function add(to, state, from)
	reply[to] = math.min(reply[to] + state[from], MOST)
	reply[to + 1] = math.min(reply[to + 1] + state[from + 1], MOST)
end

local function count(state)
	local ahead = state[1] - window
	if ahead == 0 then
		add(1, state, 2)
		add(3, state, 4)
	elseif ahead == 1 then
		add(1, state, 4)
	elseif ahead == -1 then
		add(3, state, 2)
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
	local name, state = stored[i], parse(stored[i + 1])
	if name == holder then
		own = state and merge(own, state) or own
	elseif not state or state[1] < oldest then
		redis.call('HDEL', KEYS[1], name)
	else
		count(state)
		tell(name, stored[i + 1])
	end
end
tell(holder, write(holder, own))
redis.call('PEXPIRE', KEYS[1], ARGV[8])
return reply
