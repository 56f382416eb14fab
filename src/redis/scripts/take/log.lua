
-- Sliding window log. As in C the last `pending` entries carry `newest` and stand nowhere else. A
-- short one is read and written whole. A long one is a ring in which a take writes two places, so
-- that it costs no more than a short one; l.list is nil then, and stamps are read one by one.
local function log()
	local STAMP, SHORT, HEAD, RING_HEAD, BEFORE = 7, 128, 9, 15, 12 + 15
	local LONGEST_SHORT = BEFORE + HEAD + SHORT * STAMP
	local SHORTEST_RING = 160

	local function place(l, slot)
		return l.base + RING_HEAD + slot * STAMP
	end

	local function slot_of(l, i)
		return (l.head - (l.count - i)) % l.slots
	end

	-- Of the i-th oldest entry, from 1.
	local function stamp(l, i)
		if i > l.count - l.pending then
			return l.newest
		elseif l.list then
			return (struct.unpack('>I7', l.list, (i - 1) * STAMP + 1))
		end
		local at = place(l, slot_of(l, i))
		return (struct.unpack('>I7', redis.call('GETRANGE', l.key, at, at + STAMP - 1)))
	end

	-- The first entry, from low on, that is later than us; count + 1 if none is.
	local function first_after(l, us, low)
		local high = l.count + 1
		while low < high do
			local middle = math.floor((low + high) / 2)
			if stamp(l, middle) > us then
				high = middle
			else
				low = middle + 1
			end
		end
		return low
	end

	-- The stamps of entries that are not pending, as they stand.
	local function slice(l, from, to)
		if from > to then
			return ''
		elseif l.list then
			return string.sub(l.list, (from - 1) * STAMP + 1, to * STAMP)
		end
		local first, last = slot_of(l, from), slot_of(l, to)
		local stop = place(l, last) + STAMP - 1
		if first <= last then
			return redis.call('GETRANGE', l.key, place(l, first), stop)
		end
		return redis.call('GETRANGE', l.key, place(l, first), place(l, l.slots) - 1)
			.. redis.call('GETRANGE', l.key, place(l, 0), stop)
	end

	local function parse(l, v)
		l.newest, l.pending, l.count, l.list = 0, 0, 0, ''
		if #v + l.base > LONGEST_SHORT then
			local newest, pending, head, count, slots = struct.unpack('>I7I2I2I2I2', v)
			if pending <= count and count <= slots and head < slots then
				l.newest, l.pending, l.count = newest, pending, count
				l.head, l.slots, l.list = head, slots, nil
			end
		elseif #v >= HEAD and (#v - HEAD) % STAMP == 0 then
			l.newest, l.pending = struct.unpack('>I7I2', v)
			l.list = string.sub(v, HEAD + 1)
			l.count = (#v - HEAD) / STAMP + l.pending
		end
	end

	local function load(l, v)
		parse(l, v or '')
		l.late = late(l.newest)
		l.at = now + l.late
		if l.newest > l.at then
			local later = first_after(l, l.at - 1, 1)
			l.list = l.list and slice(l, 1, math.min(later - 1, l.count - l.pending))
			l.newest, l.pending, l.changed = l.at, l.count - later + 1, true
		end
		-- Newest and oldest first: for a key that was idle or is under its limit they suffice.
		local out = l.at - l.period
		if l.count == 0 or l.newest <= out then
			l.dead = l.count
		elseif stamp(l, 1) > out then
			l.dead = 0
		else
			l.dead = first_after(l, out, 2) - 1
		end
		l.used = l.count - l.dead
	end

	-- From now on these are the entries, none of them dead. `list` nil: the ring serves, with its
	-- head moved by so much.
	local function become(l, list, pending, count, moved)
		if list then
			list = string.sub(list, #list - (count - pending) * STAMP + 1)
		else
			l.head = (l.head + moved) % l.slots
		end
		l.list, l.pending, l.count = list, pending, count
		l.used, l.dead, l.changed = count, 0, true
	end

	local function ring_serves(l, count)
		return not l.list and count <= l.slots and count > SHORT / 2
	end

	-- Pending stamps into their slots, which end at the head.
	local function flush(l)
		local first, bytes = slot_of(l, l.count - l.pending + 1), struct.pack('>I7', l.newest)
		local upto = math.min(l.pending, l.slots - first)
		redis.call('SETRANGE', l.key, place(l, first), string.rep(bytes, upto))
		if upto < l.pending then
			redis.call('SETRANGE', l.key, place(l, 0), string.rep(bytes, l.pending - upto))
		end
	end

	-- How many there are with n more. Of more than the ceiling the oldest go; if there were more before,
	-- as many stay: wr_log_room().
	local function room(l, n)
		return math.max(math.min(l.used + n, l.ceiling), l.used)
	end

	local function add(l, n)
		local added = math.min(n, l.ceiling)
		local joins = l.used > 0 and l.newest == l.at
		local flushed = l.used > 0 and not joins and l.pending or 0
		local count = room(l, added)
		local pending = math.min(added + (joins and l.pending or 0), count)
		local list
		if added == 0 then
			return
		end
		if not ring_serves(l, count) then
			list = slice(l, l.dead + 1, l.count - l.pending)
				.. string.rep(struct.pack('>I7', l.newest), flushed)
		elseif flushed > 0 then
			flush(l)
		end
		become(l, list, pending, count, added)
		l.newest = l.at
	end

	local function drop_newest(l, n)
		local count, pending = l.used - n, math.max(l.pending - n, 0)
		local list
		if not ring_serves(l, count) then
			list = slice(l, l.dead + 1, l.dead + count - pending)
		end
		become(l, list, pending, count, -n)
	end

	-- One that came after the take is not taken away in its place: it stays for longer. A full log may
	-- have dropped older entries for refused requests, which would be missing then.
	local function give(l, n)
		if not l.decided then
			n = math.min(n, l.used)
			if n > 0 then
				drop_newest(l, n)
			end
			return
		end
		if l.count_rejected and l.used >= l.ceiling then
			return
		end
		local from = first_after(l, l.decided - 1, l.dead + 1)
		local behind = first_after(l, l.decided, from)
		n = math.min(n, behind - from)
		if n > 0 and behind > l.count then
			drop_newest(l, n)
		elseif n > 0 then
			become(l, slice(l, l.dead + 1, from - 1) .. slice(l, from + n, l.count - l.pending),
				l.pending, l.used - n)
		end
	end

	local function report(l, n)
		local us = math.min(l.decided, l.at)
		if l.at - us >= l.period then
			return
		elseif l.used == 0 or us >= l.newest then
			l.at = us
			add(l, n)
			return
		end
		local from = first_after(l, us, l.dead + 1)
		local count = room(l, n)
		n = math.min(n, l.ceiling)
		become(l, slice(l, l.dead + 1, from - 1) .. string.rep(struct.pack('>I7', us), n)
			.. slice(l, from, l.count - l.pending), math.min(l.pending, count), count)
	end

	-- Until the i-th oldest live one is out.
	local function rest(l, i)
		return l.late + l.period - (now + l.late - stamp(l, l.dead + i))
	end

	local function as_ring(l)
		local slots = math.max(SHORTEST_RING, l.count, math.min(l.ceiling, 2 * l.count))
		return struct.pack('>I7I2I2I2I2', l.newest, l.pending, l.count - 1, l.count, slots)
			.. l.list .. string.rep('\0', slots * STAMP - #l.list)
	end

	return {
		load = load,
		add = add,
		give = give,
		report = report,
		peek = LONGEST_SHORT,
		wait = function(l, ceiling, n)
			local leave = l.used + n - ceiling
			return leave > 0 and rest(l, leave) or 0
		end,
		reset = function(l)
			return l.used > 0 and rest(l, l.used) or 0
		end,
		-- nil: all but the head of the ring stood where it belongs, and now that does too.
		pack = function(l, soft, ms)
			if not l.list then
				if #soft == l.base then
					redis.call('SETRANGE', l.key, 0, soft .. struct.pack('>I7I2I2I2I2', l.newest,
						l.pending, l.head, l.count, l.slots))
					redis.call('PEXPIRE', l.key, ms)
					return nil
				end
				l.list = slice(l, 1, l.count - l.pending)
			end
			if #l.list > SHORT * STAMP then
				return as_ring(l)
			end
			return struct.pack('>I7I2', l.newest, l.pending) .. l.list
		end,
	}
end
