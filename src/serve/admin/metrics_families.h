/* The list of all metrics. A test compares the list with docs/watching.md. metrics.c writes the
 * counters of rules, metrics_table.c, metrics_bans.c and metrics_node.c those of the table and the
 * node, metrics_route.c those of this process. */
#ifndef WR_SERVE_ADMIN_METRICS_FAMILIES_H
#define WR_SERVE_ADMIN_METRICS_FAMILIES_H

#include "serve/admin/metrics.h"

/* All metrics: X(enum, name, type, unit, help) */
#define WR_METRICS(X)                                                                              \
	X(decisions, "weir_decisions", COUNTER, "",                                                \
	  "Decisions of each rule; a request counts for every rule that applies to it.")           \
	X(near_limit, "weir_near_limit", COUNTER, "",                                              \
	  "Requests admitted above a share of the limit, 80 % by default.")                        \
	X(soft, "weir_soft_overshoot", COUNTER, "",                                                \
	  "Requests admitted above the limit by soft mode.")                                       \
	X(delayed, "weir_delayed", COUNTER, "", "Requests admitted after a wait.")                 \
	X(delay, "weir_delay_seconds", COUNTER, "seconds",                                         \
	  "Total time that delayed requests waited.")                                              \
	X(cost_reserved, "weir_cost_reserved_units", COUNTER, "",                                  \
	  "Units charged when requests arrived, of rules with costs.")                             \
	X(cost_actual, "weir_cost_actual_units", COUNTER, "", "Units that settled requests used.") \
	X(cost_refunded, "weir_cost_refunded_units", COUNTER, "",                                  \
	  "Units given back when requests were settled.")                                          \
	X(cost_debt, "weir_cost_debt_units", COUNTER, "",                                          \
	  "Units charged beyond the reservation when requests were settled.")                      \
	X(cost_lost, "weir_cost_lost_units", COUNTER, "",                                          \
	  "Units neither given back nor charged: the window had ended, or the debt was full.")     \
	X(cost_defaulted, "weir_cost_defaulted", COUNTER, "",                                      \
	  "Costs replaced by a default: missing, not a number, or negative.")                      \
	X(cost_clamped, "weir_cost_clamped", COUNTER, "", "Costs lowered to their maximum.")       \
	X(settled, "weir_settled", COUNTER, "", "Requests whose actual cost was settled.")         \
	X(slots_in_use, "weir_slots_in_use", GAUGE, "",                                            \
	  "Concurrent requests: slots that are held, of all keys.")                                \
	X(slots_taken, "weir_slots_taken", COUNTER, "", "Concurrent requests that got a slot.")    \
	X(slots_lost, "weir_slots_lost", COUNTER, "",                                              \
	  "Slots that were not given back within max_hold.")                                       \
	X(bans_started, "weir_bans_started", COUNTER, "",                                          \
	  "Bans that a rule started, because it had refused a key too often.")                     \
	X(ban_refusals, "weir_ban_refusals", COUNTER, "",                                          \
	  "Requests that the automatic bans of a rule refused.")                                   \
	X(bans_shadow, "weir_bans_shadow_started", COUNTER, "",                                    \
	  "Bans that a rule would have started if it were enforced.")                              \
	X(ban_shadow_refusals, "weir_ban_shadow_refusals", COUNTER, "",                            \
	  "Requests that these bans would have refused.")                                          \
	X(bans_in_force, "weir_bans_in_force", GAUGE, "", "Bans in force, by kind.")               \
	X(bans_unlisted, "weir_bans_unlisted", COUNTER, "",                                        \
	  "Bans in force without an entry in the list of bans, which was full.")                   \
	X(ban_orders_lost, "weir_ban_orders_lost", COUNTER, "",                                    \
	  "Automatic bans that could not be sent to the other nodes.")                             \
	X(shield_up, "weir_shield_up", GAUGE, "", "1: weir shield runs on this table.")            \
	X(shield_elements, "weir_shield_elements", GAUGE, "",                                      \
	  "Elements in the kernel's sets, by kind.")                                               \
	X(shield_packets, "weir_shield_dropped_packets", COUNTER, "",                              \
	  "Packets that the kernel dropped.")                                                      \
	X(shield_bytes, "weir_shield_dropped_bytes", COUNTER, "",                                  \
	  "Bytes that the kernel dropped.")                                                        \
	X(shield_skipped, "weir_shield_skipped", GAUGE, "",                                        \
	  "Bans that are not in the kernel's sets, because the address is protected or the rule "  \
	  "is paused, in shadow mode or removed.")                                                 \
	X(shield_left_out, "weir_shield_left_out", GAUGE, "",                                      \
	  "Bans that are not in the kernel's sets, because a set is full.")                        \
	X(shield_failures, "weir_shield_failures", COUNTER, "",                                    \
	  "Changes that the kernel did not accept.")                                               \
	X(ruleless, "weir_requests_without_rule", COUNTER, "",                                     \
	  "Requests that no rule decided, by reason.")                                             \
	X(candidates, "weir_candidate_decisions", COUNTER, "",                                     \
	  "Decisions that a candidate would have made on the requests of its rule.")               \
	X(candidates_differ, "weir_candidate_differences", COUNTER, "",                            \
	  "Candidate decisions that differ from the decision of the rule.")                        \
	X(rules_in_other, "weir_rules_in_other", GAUGE, "",                                        \
	  "Rules without their own series, counted as other.")                                     \
	X(table, "weir_table", INFO, "", "The table that all counts belong to.")                   \
	X(table_keys, "weir_table_keys", GAUGE, "", "Keys that have not expired.")                 \
	X(table_keys_refused, "weir_table_keys_refused", GAUGE, "",                                \
	  "Keys whose last request was refused.")                                                  \
	X(table_room, "weir_table_room_for_keys", GAUGE, "", "Capacity of the table, in keys.")    \
	X(table_bytes, "weir_table_memory_bytes", GAUGE, "bytes", "Size of the table.")            \
	X(log_bytes, "weir_table_log_bytes", GAUGE, "bytes",                                       \
	  "Memory of the table for sliding window logs.")                                          \
	X(log_used, "weir_table_log_used_bytes", GAUGE, "bytes",                                   \
	  "Memory of the table that sliding window logs use.")                                     \
	X(evictions, "weir_table_evictions", COUNTER, "",                                          \
	  "Keys evicted to make room for others, by kind; an expired key is no loss.")             \
	X(log_approximate, "weir_table_log_approximate", COUNTER, "",                              \
	  "Requests decided on an approximated log, for lack of memory.")                          \
	X(log_full, "weir_table_log_full", COUNTER, "",                                            \
	  "Requests refused because their log had no memory.")                                     \
	X(log_lost, "weir_table_log_lost", COUNTER, "",                                            \
	  "Logs found missing: the table's file was damaged.")                                     \
	X(claims_stolen, "weir_table_claims_stolen", COUNTER, "",                                  \
	  "Claims of dead processes that were taken over, without loss of counts.")                \
	X(rules, "weir_rules", INFO, "", "The rules in force, by the hash of their files.")        \
	X(generation, "weir_rules_generation", GAUGE, "",                                          \
	  "Number of rule sets in force since the start.")                                         \
	X(rules_loaded, "weir_rules_loaded_timestamp_seconds", GAUGE, "seconds",                   \
	  "Time when the rules in force were loaded.")                                             \
	X(rules_failed, "weir_rules_last_load_failed", GAUGE, "",                                  \
	  "1: the files have errors, and older rules stay in force.")                              \
	X(loads, "weir_rules_loads", COUNTER, "", "Loads of the rule files, by result.")           \
	X(build, "weir_build", INFO, "", "The version.")                                           \
	X(latency, "weir_decision_duration_seconds", HISTOGRAM, "seconds",                         \
	  "Duration of decisions, one in 64 sampled.")                                             \
	X(hosts, "weir_hosts", GAUGE, "",                                                          \
	  "Processes that decide with this table, by the hash of their rules.")                    \
	X(hosts_failed, "weir_hosts_load_failed", GAUGE, "",                                       \
	  "Processes whose last load of the rules failed.")                                        \
	X(store_up, "weir_store_up", GAUGE, "", "1: Redis answers.")                               \
	X(store_breaker, "weir_store_breaker_state", GAUGE, "",                                    \
	  "Circuit breaker of Redis; 0: closed, 1: half open, 2: open.")                           \
	X(store_nodes, "weir_store_nodes", GAUGE, "", "Redis servers.")                            \
	X(store_nodes_up, "weir_store_nodes_up", GAUGE, "", "Redis servers that answer.")          \
	X(store_rtt, "weir_store_rtt_seconds", GAUGE, "seconds",                                   \
	  "Round trip time to Redis, smoothed.")                                                   \
	X(store_waiting, "weir_store_questions_waiting", GAUGE, "",                                \
	  "Questions to Redis without a reply so far.")                                            \
	X(fleet_nodes, "weir_fleet_nodes", GAUGE, "", "Nodes of this fleet seen recently.")        \
	X(share, "weir_share_ratio", GAUGE, "ratio", "This node's share of limits.")               \
	X(leases, "weir_leases", GAUGE, "", "Leases held.")                                        \
	X(leased, "weir_leased_units", GAUGE, "", "Units held in leases and not spent.")           \
	X(leases_granted, "weir_leases_granted", COUNTER, "",                                      \
	  "Leases started since the service started.")                                             \
	X(leases_renewed, "weir_leases_renewed", COUNTER, "", "Leases renewed.")                   \
	X(leases_voided, "weir_leases_voided", COUNTER, "",                                        \
	  "Leases that Redis had lost, or that were reset.")                                       \
	X(units_granted, "weir_lease_units_granted", COUNTER, "",                                  \
	  "Units borrowed since the service started.")                                             \
	X(units_spent, "weir_lease_units_spent", COUNTER, "", "Borrowed units that were spent.")   \
	X(units_returned, "weir_lease_units_returned", COUNTER, "",                                \
	  "Borrowed units that were returned.")                                                    \
	X(units_burnt, "weir_lease_units_burnt", COUNTER, "",                                      \
	  "Borrowed units that expired before they were spent.")                                   \
	X(overshoot, "weir_overshoot_ratio", GAUGE, "ratio",                                       \
	  "Bound of the excess over eventual limits, as a share of the worst limit.")              \
	X(exchanges, "weir_exchanges", COUNTER, "", "Counters exchanged with other nodes.")        \
	X(pushes, "weir_pushes", COUNTER, "", "Counters sent to other regions.")                   \
	X(regions, "weir_regions", GAUGE, "", "Other regions that receive counts.")                \
	X(regions_up, "weir_regions_up", GAUGE, "", "Other regions whose Redis answers.")          \
	X(queue_depth, "weir_queue_depth", GAUGE, "", "Deferred requests that wait.")              \
	X(queue_bytes, "weir_queue_bytes", GAUGE, "bytes", "Bytes of stored deferred requests.")   \
	X(queue_oldest, "weir_queue_oldest_age_seconds", GAUGE, "seconds",                         \
	  "Age of the oldest waiting request.")                                                    \
	X(queue_dead, "weir_queue_dead_letters", GAUGE, "", "Dead letters stored.")                \
	X(queue_sending, "weir_queue_sending", GAUGE, "", "Deliveries in flight.")                 \
	X(queue_target_up, "weir_queue_target_up", GAUGE, "",                                      \
	  "1: the API server for deliveries is reachable.")                                        \
	X(queue_stored, "weir_queue_stored", COUNTER, "", "Requests deferred by this process.")    \
	X(queue_delivered, "weir_queue_delivered", COUNTER, "",                                    \
	  "Requests delivered: the API server gave a final response.")                             \
	X(queue_retried, "weir_queue_retried", COUNTER, "",                                        \
	  "Deliveries that failed and are retried.")                                               \
	X(queue_died, "weir_queue_dead", COUNTER, "",                                              \
	  "Requests that became dead letters, by age or after too many attempts.")                 \
	X(queue_refused, "weir_queue_refused", COUNTER, "",                                        \
	  "Requests that could not be deferred and were refused, by reason.")                      \
	X(log_lines, "weir_decision_log_lines", COUNTER, "",                                       \
	  "Lines of this process's decision log, by outcome.")                                     \
	X(connections, "weir_connections", GAUGE, "", "Connections to this process.")

enum wr_metric {
#define WR_METRIC_ENUM(id, name, type, unit, help) WR_METRIC_##id,
	WR_METRICS(WR_METRIC_ENUM)
#undef WR_METRIC_ENUM
};

extern const struct wr_prom_family wr_metrics[];

/* Functions of metrics_table.c, metrics_bans.c and metrics_node.c. Each writes some of the families. */
void wr_metrics_put_table(struct wr_prom *prom, const struct weir_info *info);
void wr_metrics_put_bans(struct wr_prom *prom, struct weir_table *table,
			 const struct weir_info *info, uint64_t now_ns);
void wr_metrics_put_engine(struct wr_prom *prom, struct weir_engine *engine);
void wr_metrics_put_latency(struct wr_prom *prom, struct weir_table *table);
void wr_metrics_put_hosts(struct wr_prom *prom, struct weir_table *table);
void wr_metrics_put_gauges(struct wr_prom *prom, struct weir_table *table, uint64_t now_ns);

/* Writes a family that has one sample without labels. */
void wr_metrics_put(struct wr_prom *prom, enum wr_metric metric, uint64_t value);

#endif
