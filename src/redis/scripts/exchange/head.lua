-- Stores the units that nodes admitted of a counter. KEYS[1] is a hash: holder → "window plus minus
-- before_plus before_minus". Numbers are at most 2^52, and only rise within a window.

local MOST = 2 ^ 52

-- Returns the five numbers of a state, or nil if the text is no state. Numbers above MOST become MOST
-- when they are added up or written.
local function parse(text)
	local a, b, c, d, e = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
	if a then
		return tonumber(a), tonumber(b), tonumber(c), tonumber(d), tonumber(e)
	end
end

-- Merges two states of one holder. The result has the latest two windows, and the larger numbers
-- for each window.
local function merge(a, b)
	if a[1] < b[1] then
		a, b = b, a
	end
	if a[1] == b[1] then
		return {a[1], math.max(a[2], b[2]), math.max(a[3], b[3]),
			math.max(a[4], b[4]), math.max(a[5], b[5])}
	elseif a[1] == b[1] + 1 then
		return {a[1], a[2], a[3], math.max(a[4], b[2]), math.max(a[5], b[3])}
	end
	return a
end

local function write(name, state)
	for i = 1, 5 do
		state[i] = math.min(state[i], MOST)
	end
	local text = string.format('%.0f %.0f %.0f %.0f %.0f', unpack(state))
	redis.call('HSET', KEYS[1], name, text)
	return text
end
