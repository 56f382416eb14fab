
-- ARGV      holder, window, plus, minus, before_plus, before_minus: the units that it admitted; oldest:
--           earlier states are deleted; life in ms; the length in ns by which windows are numbered;
--           then tags of other regions, eight letters each: those that may lack data of this region;
--           those that the holder can reach; the one that it relays to, since when, and the last name
--           that has arrived there ("": all); how long no other holder may relay to a region, in ms
-- reply     plus, minus, before_plus, before_minus of all other holders in the holder's windows; their
--           number; and if the holder is to relay: to which region, since when, whether there is more,
--           and a page of names and states of its own region, except its own state

local PAGE, NAME, STATE = 64, 96, 111 -- pairs of a page, and the maximum bytes of a name and a state

local holder, window, oldest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[7])
local own = {window, tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])}
local lacking, reached, region, since, last = ARGV[10], ARGV[11], ARGV[12], tonumber(ARGV[13]), ARGV[14]
local reply = {0, 0, 0, 0, 0}
local states, debts = {}, {}

-- A state is deleted only if it is old by the clock of Redis as well: a holder whose clock is fast must
-- not delete the states of all others, and neither must a Redis whose clock is fast. The distance is
-- doubled because the months of a calendar differ in length.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
oldest = math.min(oldest, math.floor(now * 1000 / tonumber(ARGV[9])) - 2 * (window - oldest))

local function add(to, plus, minus)
	reply[to] = math.min(reply[to] + plus, MOST)
	reply[to + 1] = math.min(reply[to + 1] + minus, MOST)
end

-- Adds the two windows of another holder to those of this holder that they match.
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

local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
	local name, a, b, c, d, e = stored[i], parse(stored[i + 1])
	if name == holder then
		own = a and merge(own, {a, b, c, d, e}) or own
	elseif string.sub(name, 1, 1) == '@' then
		debts[string.sub(name, 2)] = stored[i + 1]
	elseif not a or a < oldest then
		redis.call('HDEL', KEYS[1], name)
	else
		count(a, b, c, d, e)
		states[name] = stored[i + 1]
	end
end
write(holder, own)
redis.call('PEXPIRE', KEYS[1], ARGV[8])
if lacking == '' and region == '' and (reached == '' or not next(debts)) then
	return reply
end

-- '@region' → since when it may lack data; until when a holder relays to it; the name of that holder.
local function read(to)
	local owed, till, who = string.match(debts[to] or '', '^(%d+) (%d+) (%S+)$')
	return tonumber(owed), tonumber(till), who
end

local function note(to, owed, till, who)
	debts[to] = string.format('%.0f %.0f %s', owed, till, who)
	redis.call('HSET', KEYS[1], '@' .. to, debts[to])
end

-- A relay in progress may lack the new data: it starts again when it is complete.
for to in string.gmatch(lacking, '........') do
	local owed, till, who = read(to)
	if not owed or till > now then
		note(to, now, till or 0, who or '-')
	end
end

-- All data has arrived. Data that was added meanwhile can be relayed by any holder.
local function finish(to)
	local owed, till, who = read(to)
	if who == holder and owed <= since then
		debts[to] = nil
		redis.call('HDEL', KEYS[1], '@' .. to)
	elseif who == holder then
		note(to, owed, 0, '-')
	end
end

-- The region to relay to, since when, and after which name; nil: none.
local function choose()
	local owed, till, who = read(region)
	if region ~= '' and last ~= '' and who == holder then
		return region, since, last
	end
	for to in string.gmatch(reached, '........') do
		owed, till, who = read(to)
		if owed and (till <= now or who == holder) then
			return to, now, ''
		end
	end
end

local function page(behind)
	local home, names = string.match(holder, '^[^/]*/'), {}
	for name, text in pairs(states) do
		if home and string.sub(name, 1, #home) == home and name > behind and
		   #name <= NAME and #text <= STATE then
			names[#names + 1] = name
		end
	end
	table.sort(names)
	reply[8] = #names > PAGE and 1 or 0
	for i = 1, math.min(#names, PAGE) do
		reply[#reply + 1] = names[i]
		reply[#reply + 1] = states[names[i]]
	end
end

if region ~= '' and last == '' then
	finish(region)
end
local to, from, behind = choose()
if to then
	note(to, (read(to)), now + tonumber(ARGV[15]) * 1000, holder)
	reply[6], reply[7] = to, from
	page(behind)
end
return reply
