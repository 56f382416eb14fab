
-- Sliding window log. As in src/algo, the last `pending` entries have the stamp `newest`, so only their
-- number is stored. A short log is read and written as a whole. A long log is a ring. A take writes
-- only two parts of a ring, so that it costs no more than with a short log. For a ring, l.list is
-- nil, and stamps are read one by one.
local function log()
	local STAMP, SHORT, HEAD, RING_HEAD, BEFORE = 7, 128, 9, 15, 12 + 15
	local LONGEST_SHORT = BEFORE + HEAD + SHORT * STAMP
	local SHORTEST_RING = 160

	local function slot_offset(l, slot)
		return l.base + RING_HEAD + slot * STAMP
	end

	local function slot_of(l, i)
		return (l.head - (l.count - i)) % l.slots
	end

	-- Returns the stamp of the i-th oldest entry, counted from 1.
	local function stamp(l, i)
		if i > l.count - l.pending then
			return l.newest
		elseif l.list then
			return (struct.unpack('>I7', l.list, (i - 1) * STAMP + 1))
		end
		local at = slot_offset(l, slot_of(l, i))
		return (struct.unpack('>I7', redis.call('GETRANGE', l.key, at, at + STAMP - 1)))
	end

	-- Returns the index of the first entry from `low` on that is later than `us`. Returns
	-- count + 1 if there is no such entry.
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

	-- Returns the stored stamps of the entries `from` to `to`. The caller must not ask for
	-- pending entries, because their stamps are not stored.
	local function slice(l, from, to)
		if from > to then
			return ''
		elseif l.list then
			return string.sub(l.list, (from - 1) * STAMP + 1, to * STAMP)
		end
		local first, last = slot_of(l, from), slot_of(l, to)
		local stop = slot_offset(l, last) + STAMP - 1
		if first <= last then
			return redis.call('GETRANGE', l.key, slot_offset(l, first), stop)
		end
		return redis.call('GETRANGE', l.key, slot_offset(l, first), slot_offset(l, l.slots) - 1)
			.. redis.call('GETRANGE', l.key, slot_offset(l, 0), stop)
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
		-- The newest and the oldest stamp are checked first, because they suffice for a key
		-- that was idle or is below its limit.
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

	-- Sets the entries of the log: `count` live entries, of which the newest `pending` are
	-- pending entries. If `list` is given, its last stamps become the stamps of the other
	-- entries, and its earlier stamps are dropped. If `list` is nil, the other entries stay in
	-- the ring, and l.head, the index of the newest entry in the ring, moves by `moved`.
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

	-- Writes the pending stamps into their slots in the ring. The last of these slots is
	-- l.head.
	local function flush(l)
		local first, bytes = slot_of(l, l.count - l.pending + 1), struct.pack('>I7', l.newest)
		local upto = math.min(l.pending, l.slots - first)
		redis.call('SETRANGE', l.key, slot_offset(l, first), string.rep(bytes, upto))
		if upto < l.pending then
			redis.call('SETRANGE', l.key, slot_offset(l, 0), string.rep(bytes, l.pending - upto))
		end
	end

	-- Returns the number of entries after adding n. Above the ceiling the oldest entries are
	-- dropped, but not more entries than are added. wr_algo_log_room() does the same.
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

	-- Gives n units back. Without l.decided, removes the n newest entries. With l.decided,
	-- removes only entries whose stamp is l.decided. If these are fewer than n, no later
	-- entries are removed instead, because later entries count for longer. With l.decided,
	-- nothing is removed from a full log of a limit that counts rejected requests. In such a
	-- log, refused requests may have displaced entries that would still count, so after a
	-- removal the log would have too few entries.
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

	-- Returns the µs until the i-th oldest live entry expires.
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
		-- Returns the state as text, or nil if the ring was updated in place.
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
