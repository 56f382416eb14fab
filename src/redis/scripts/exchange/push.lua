
-- Merges states from another region into the hash. ARGV[1] is the life of the hash in ms. The other
-- arguments are pairs of a holder's name and its state.

for i = 2, #ARGV - 1, 2 do
	local name, state = ARGV[i], {parse(ARGV[i + 1])}
	local stored = {parse(redis.call('HGET', KEYS[1], name) or '')}
	if state[1] then
		write(name, stored[1] and merge(stored, state) or state)
	end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
