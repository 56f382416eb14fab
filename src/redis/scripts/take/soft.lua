-- Soft mode. An excess is at most as far ahead as clocks may differ; further, it happened now.
local function last_excess(l, us)
	return l.last > us + max(l.span, SKEW_US) and us or l.last
end

local function armed(l, us)
	return not l.last or us >= last_excess(l, us) + l.span
end

local function spent(l, us)
	return not armed(l, us) and max(us - last_excess(l, us) + l.lasted, 0) >= l.soft_for
end

-- How long it lasts is counted up to where it is past any grace, as in C.
local function note_excess(l)
	if armed(l, now) then
		l.last, l.lasted, l.noted = now, 0, true
	elseif now > l.last then
		local most = 4294967 * (floor(l.soft_for / 4294967.295) + 1)
		l.last, l.lasted, l.noted = now, min(l.lasted + now - l.last, most), true
	end
end

local function rearm_after(l)
	return armed(l, now) and 0 or last_excess(l, now) + l.span - now
end
