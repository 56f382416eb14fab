
local CHANGED_MAX = 100000 -- lines without anybody waiting that are remembered for other gateways

local function forget(id)
  local r = call('HMGET', row(id), 't', 's', 'b')
  if r[1] then
    call('HDEL', key('tickets'), r[1])
    if r[2] == DEAD then call('HINCRBY', key('n'), 'bytes', '-' .. r[3]) end
  end
  call('DEL', row(id))
  for _, set in ipairs({'ids', 'dead', 'gone', 'gone_dead'}) do
    call('ZREM', key(set), id)
  end
end

-- tidy MAX_TICKETS MOST → {now, forgotten}: tickets whose time has come, and the oldest beyond what
-- is to be remembered.
function verbs.tidy(max_tickets, most)
  local ids = call('ZRANGEBYSCORE', key('gone'), '-inf', int(now), 'LIMIT', 0, most)
  for _, id in ipairs(call('ZRANGEBYSCORE', key('gone_dead'), '-inf', int(now), 'LIMIT', 0, most)) do
    ids[#ids + 1] = id
  end
  local over = call('ZCARD', key('gone')) - tonumber(max_tickets)
  if #ids == 0 and over > 0 then
    ids = call('ZRANGE', key('gone'), 0, math.min(over, tonumber(most)) - 1)
  end
  for _, id in ipairs(ids) do forget(id) end
  local many = call('ZCARD', key('changed')) - CHANGED_MAX
  if many > 0 then
    for _, line in ipairs(call('ZRANGE', key('changed'), 0, math.min(many, 1000))) do
      if count(line) == 0 then call('ZREM', key('changed'), line) end
    end
  end
  return {now, #ids}
end

return verbs[ARGV[1]](unpack(ARGV, 2))
