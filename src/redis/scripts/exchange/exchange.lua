
-- ARGV      1      name of the calling holder
--           2-6    its state: window, plus, minus, before_plus, before_minus
--           7      number of the oldest window; states of earlier windows are deleted
--           8      life of the hash in ms
--           9      unit in ns: a window's number is its start since the epoch, divided by the unit
--           10     tags (eight letters each) of the regions that may lack data of this region
--           11     tags of the regions that the holder can reach
--           12-14  if the holder is relaying: the tag of the region that it relays to, the time at
--                  which relaying began, and the last name that has arrived there ("": all names)
--           15     how long no other holder is allowed to relay to that region, in ms
-- reply     1-4    plus, minus, before_plus, before_minus: sums over all other holders, in the
--                  windows of the calling holder
--           5      number of other holders
--           6-8    only if the holder must relay: the tag of the region to relay to, the time at
--                  which relaying began, and whether more pages follow (1 or 0)
--           9-     a page: names and states of other holders of the holder's own region

-- Maximum number of states in a page; maximum lengths of a name and of a state in bytes.
local PAGE, NAME, STATE = 64, 96, 111

local holder, window, oldest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[7])
local own = {window, tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])}
local lacking, reached, region, since, last = ARGV[10], ARGV[11], ARGV[12], tonumber(ARGV[13]), ARGV[14]
local reply = {0, 0, 0, 0, 0}
local states, debts = {}, {}

-- A state is deleted only if it is old by the clock of this holder and also by the clock of Redis.
-- Otherwise one fast clock could delete the states of all other holders. So `oldest` becomes the
-- earlier of two windows: the `oldest` that this holder sent, and a window computed from the clock
-- of Redis. The latter is 2 * (window - oldest) before the present. The factor 2 is a margin,
-- because the months of a calendar differ in length.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
oldest = math.min(oldest, math.floor(now * 1000 / tonumber(ARGV[9])) - 2 * (window - oldest))

local function add(to, plus, minus)
	reply[to] = math.min(reply[to] + plus, MOST)
	reply[to + 1] = math.min(reply[to + 1] + minus, MOST)
end

-- Adds the units of another holder to the sums. The state of the other holder has two windows. A
-- window is counted only if this holder's state has the same window.
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

-- Reads the field '@region' of the hash. Returns the time since which the region may lack data, the
-- time until which a holder relays to it, and the name of that holder.
local function read(to)
	local owed, till, who = string.match(debts[to] or '', '^(%d+) (%d+) (%S+)$')
	return tonumber(owed), tonumber(till), who
end

local function note(to, owed, till, who)
	debts[to] = string.format('%.0f %.0f %s', owed, till, who)
	redis.call('HSET', KEYS[1], '@' .. to, debts[to])
end

-- Records that these regions may lack data. A relay that is in progress may miss the new data, so a
-- new relay begins when that relay is complete.
for to in string.gmatch(lacking, '........') do
	local owed, till, who = read(to)
	if not owed or till > now then
		note(to, now, till or 0, who or '-')
	end
end

-- Called when this holder has relayed all data to the region. If another holder has begun to relay
-- to the region meanwhile, changes nothing. If the region lacks data that is newer than this relay,
-- the field '@region' of the hash stays, and any holder can begin another relay. In all other cases
-- deletes the field.
local function finish(to)
	local owed, till, who = read(to)
	if who == holder and owed <= since then
		debts[to] = nil
		redis.call('HDEL', KEYS[1], '@' .. to)
	elseif who == holder then
		note(to, owed, 0, '-')
	end
end

-- Returns the region to relay to, the time at which relaying began, and the name after which the page
-- begins. Returns nil if there is nothing to relay.
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
