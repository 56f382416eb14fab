-- An action that asks weir about each request:   http-request lua.weir
--
-- If weir admits a request, the request passes, and the variables txn.weir.* contain the header fields of its limit. If
-- weir refuses a request, the client receives weir's status, fields and body. If weir is down, slow or fails, the
-- request passes.

local ADDRESS = os.getenv("WEIR_ADDRESS") or "127.0.0.1:8082"
local QUESTION = "http://" .. ADDRESS .. "/check/api?by=forwarded"
local TIMEOUT_MS = 500

-- Header fields for the client, and the variables that carry them to the API's response.
local FIELDS = {
	["x-ratelimit-limit"] = "txn.weir.limit",
	["x-ratelimit-remaining"] = "txn.weir.remaining",
	["ratelimit"] = "txn.weir.ratelimit",
	["ratelimit-policy"] = "txn.weir.policy",
}

-- Fields that are not copied from the client to weir or from weir to the client: fields that belong to one connection,
-- and fields that only this proxy may set.
local NOT_PASSED_ON = {
	["connection"] = true, ["keep-alive"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true,
	["upgrade"] = true, ["proxy-connection"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true,
	["forwarded"] = true, ["x-real-ip"] = true, ["x-forwarded-for"] = true, ["x-forwarded-host"] = true,
	["x-forwarded-method"] = true, ["x-forwarded-proto"] = true, ["x-forwarded-uri"] = true,
	["x-original-method"] = true, ["x-original-uri"] = true, ["x-original-url"] = true,
}

local function values(list)
	local all = {}
	for _, value in pairs(list) do
		all[#all + 1] = value
	end
	return all
end

local function question_headers(txn)
	local headers = {}
	for name, list in pairs(txn.http:req_get_headers()) do
		if not NOT_PASSED_ON[name] then
			headers[name] = values(list)
		end
	end
	headers["x-forwarded-method"] = { txn.sf:method() }
	headers["x-forwarded-uri"] = { txn.sf:pathq() }
	headers["x-forwarded-for"] = { txn.sf:src() }
	headers["x-forwarded-host"] = { txn.sf:req_fhdr("host") or "" }
	return headers
end

local function refuse(txn, answer)
	local reply = txn:reply({ status = answer.status, body = answer.body or "" })
	for name, list in pairs(answer.headers or {}) do
		if not NOT_PASSED_ON[name] then
			for _, value in pairs(list) do
				reply:add_header(name, value)
			end
		end
	end
	txn:done(reply)
end

local function remember(txn, answer)
	for name, variable in pairs(FIELDS) do
		local list = (answer.headers or {})[name]
		if list then
			txn:set_var(variable, values(list)[1])
		end
	end
end

core.register_action("weir", { "http-req" }, function(txn)
	local done, answer = pcall(function()
		return core.httpclient():get({ url = QUESTION, headers = question_headers(txn), timeout = TIMEOUT_MS })
	end)

	if not done or not answer or not answer.status or answer.status == 0 or answer.status >= 500 then
		txn:Warning("weir did not answer; the request passes")
	elseif answer.status >= 300 then
		refuse(txn, answer)
	else
		remember(txn, answer)
	end
end)
