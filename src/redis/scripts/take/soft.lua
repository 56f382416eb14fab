
-- Soft mode. Its state is the time of the last excess (l.last), and the time from the first excess
-- to the last one (l.lasted).
local function soft()
	-- Returns the time of the last excess. If this time is so far in the future that it cannot
	-- come from a slightly faster clock, returns now.
	local function last(l, us)
		return l.last > us + math.max(l.span, SKEW_US) and us or l.last
	end

	local function armed(l, us)
		return not l.last or us >= last(l, us) + l.span
	end

	return {
		carry = function(l)
			if l.last and last(l, now) ~= l.last then
				l.last, l.noted = now, true
			end
		end,
		-- Records an excess. As in src/algo, l.lasted is at most `most`, which is the grace
		-- (l.soft_for) rounded up to a multiple of about 4.3 s.
		note = function(l)
			local most = 4294967 * (math.floor(l.soft_for / 4294967.295) + 1)
			if armed(l, now) then
				l.last, l.lasted, l.noted = now, 0, true
			elseif now > l.last then
				l.last, l.lasted, l.noted = now, math.min(l.lasted + now - l.last, most), true
			end
		end,
		spent = function(l, us)
			return not armed(l, us) and math.max(us - last(l, us) + l.lasted, 0) >= l.soft_for
		end,
		rearm_after = function(l)
			return armed(l, now) and 0 or last(l, now) + l.span - now
		end,
	}
end
