
-- put TICKET LINE RULE MAX_TRIES MAX_AGE INTERVAL WAIT BYTES BODY_LEN HEAD BODY
--     MAX_WAITING MAX_REQUESTS MAX_BYTES MAX_LINE_BYTES  → {now, reason, id, position, waiting}
-- TICKET: SHA-256 of the ticket. reason: '' if the request was stored, otherwise the name of the
-- maximum of the queue that is reached, such as 'full'. A caller that got no reply repeats the call
-- with the same ticket. The request is stored only once.
function verbs.put(ticket, line, rule, max_tries, max_age, interval, wait, bytes, body_len, head,
    body, max_waiting, max_requests, max_bytes, max_line_bytes)
  local known = call('HGET', key('tickets'), ticket)
  if known then
    return {now, '', tonumber(known), (call('ZRANK', line_key(line), known) or 0) + 1, count(line)}
  end
  local why = no_room(line, bytes, max_waiting, max_requests, max_bytes, max_line_bytes)
  if why then return {now, why} end
  local id = call('INCR', key('seq'))
  call('HSET', row(id), 't', ticket, 'k', line, 'rule', rule, 's', WAITING, 'n', 0, 'm', max_tries,
    'a', max_age, 'i', interval, 'at', int(now), 'due', int(now + wait), 'exp', int(now + max_age),
    'b', bytes, 'l', body_len, 'h', head, 'y', body)
  call('HSET', key('tickets'), ticket, id)
  call('ZADD', key('ids'), id, id)
  call('ZADD', key('waiting'), id, id)
  hold(line, id, '')
  call('ZADD', line_key(line), id, id)
  call('HINCRBY', key('n'), 'bytes', bytes)
  call('HINCRBY', key('n'), 'put', 1)
  local waiting = count(line)
  if waiting == 1 and not is_taken(line) then
    set_due(line)
  end
  changed(line)
  save_time()
  return {now, '', id, waiting, waiting}
end
