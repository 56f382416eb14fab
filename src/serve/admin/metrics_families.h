/* The list of all metrics. A test compares it with docs/watching.md. */
#ifndef WR_SERVE_ADMIN_METRICS_FAMILIES_H
#define WR_SERVE_ADMIN_METRICS_FAMILIES_H

#include "serve/admin/metrics.h"

/* X(enum, name, type, unit, help) */
#define WR_METRICS(X)                                                                              \
	X(decisions, "weir_decisions", COUNTER, "",                                                \
	  "Decisions of each rule; a request counts for every rule it meets.")                     \
	X(near_limit, "weir_near_limit", COUNTER, "",                                              \
	  "Requests admitted above a share of the limit, 80 % unless set otherwise.")              \
	X(soft, "weir_soft_overshoot", COUNTER, "",                                                \
	  "Requests admitted above the limit, in the overshoot of soft mode.")                     \
	X(delayed, "weir_delayed", COUNTER, "", "Requests admitted after a wait.")                 \
	X(delay, "weir_delay_seconds", COUNTER, "seconds", "Time they waited, all together.")      \
	X(ruleless, "weir_requests_without_rule", COUNTER, "",                                     \
	  "Requests that no rule decided, by the reason.")                                         \
	X(candidates, "weir_candidate_decisions", COUNTER, "",                                     \
	  "What a rule's candidate would have said to the requests the rule decided.")             \
	X(candidates_differ, "weir_candidate_differences", COUNTER, "",                            \
	  "Of these, where it would have said something else than the rule.")                      \
	X(rules_in_other, "weir_rules_in_other", GAUGE, "",                                        \
	  "Rules that have no series of their own and are counted as other.")                      \
	X(table, "weir_table", INFO, "",                                                           \
	  "The table: all counts are of it, whichever process tells them.")                        \
	X(table_keys, "weir_table_keys", GAUGE, "", "Keys held that are not as good as new.")      \
	X(table_keys_refused, "weir_table_keys_refused", GAUGE, "",                                \
	  "Of the keys held, those that were refused last.")                                       \
	X(table_room, "weir_table_room_for_keys", GAUGE, "", "Keys the table has room for.")       \
	X(table_bytes, "weir_table_memory_bytes", GAUGE, "bytes", "Size of the table.")            \
	X(log_bytes, "weir_table_log_bytes", GAUGE, "bytes",                                       \
	  "Of it, room for sliding window logs.")                                                  \
	X(log_used, "weir_table_log_used_bytes", GAUGE, "bytes", "Of that room, what is taken.")   \
	X(evictions, "weir_table_evictions", COUNTER, "",                                          \
	  "State given up for other keys, by kind; expired is no loss.")                           \
	X(log_approximate, "weir_table_log_approximate", COUNTER, "",                              \
	  "Requests decided on a log that is approximated for want of room.")                      \
	X(log_full, "weir_table_log_full", COUNTER, "",                                            \
	  "Requests refused for want of room for their log.")                                      \
	X(log_lost, "weir_table_log_lost", COUNTER, "",                                            \
	  "Logs found missing: the table's file was damaged.")                                     \
	X(claims_stolen, "weir_table_claims_stolen", COUNTER, "",                                  \
	  "Claims of dead processes taken over: no loss.")                                         \
	X(rules, "weir_rules", INFO, "", "The rules in force, by the hash of their files.")        \
	X(generation, "weir_rules_generation", GAUGE, "",                                          \
	  "How many sets of rules have been in force since the start.")                            \
	X(rules_loaded, "weir_rules_loaded_timestamp_seconds", GAUGE, "seconds",                   \
	  "When the rules in force were loaded.")                                                  \
	X(rules_failed, "weir_rules_last_load_failed", GAUGE, "",                                  \
	  "1: the files have errors, and older rules stay in force.")                              \
	X(loads, "weir_rules_loads", COUNTER, "", "Loads of the rule files, by result.")           \
	X(build, "weir_build", INFO, "", "The version.")                                           \
	X(latency, "weir_decision_duration_seconds", HISTOGRAM, "seconds",                         \
	  "How long decisions took: of one in 64.")                                                \
	X(hosts, "weir_hosts", GAUGE, "",                                                          \
	  "Processes that decide with this table, by the hash of their rules.")                    \
	X(hosts_failed, "weir_hosts_load_failed", GAUGE, "",                                       \
	  "Of these, those whose last load of the rules failed.")                                  \
	X(store_up, "weir_store_up", GAUGE, "", "1: the central store answers.")                   \
	X(store_breaker, "weir_store_breaker_state", GAUGE, "",                                    \
	  "0: closed, 1: half open, 2: open: the store is not asked.")                             \
	X(store_nodes, "weir_store_nodes", GAUGE, "", "Nodes of the central store.")               \
	X(store_nodes_up, "weir_store_nodes_up", GAUGE, "", "Of these, those that answer.")        \
	X(store_rtt, "weir_store_rtt_seconds", GAUGE, "seconds",                                   \
	  "How long the store takes to answer, smoothed.")                                         \
	X(store_waiting, "weir_store_questions_waiting", GAUGE, "",                                \
	  "Questions to the store without an answer yet.")                                         \
	X(fleet_nodes, "weir_fleet_nodes", GAUGE, "", "Nodes of this fleet seen of late.")         \
	X(share, "weir_share_ratio", GAUGE, "ratio", "This node's share of limits.")               \
	X(leases, "weir_leases", GAUGE, "", "Leases held.")                                        \
	X(leased, "weir_leased_units", GAUGE, "", "Units held in leases and not spent.")           \
	X(leases_granted, "weir_leases_granted", COUNTER, "",                                      \
	  "Leases begun since the service was.")                                                   \
	X(leases_renewed, "weir_leases_renewed", COUNTER, "", "Leases prolonged.")                 \
	X(leases_voided, "weir_leases_voided", COUNTER, "",                                        \
	  "Leases that the store had forgotten, or that were reset.")                              \
	X(units_granted, "weir_lease_units_granted", COUNTER, "",                                  \
	  "Units borrowed since the service was begun.")                                           \
	X(units_spent, "weir_lease_units_spent", COUNTER, "", "Of these, those that were spent.")  \
	X(units_returned, "weir_lease_units_returned", COUNTER, "",                                \
	  "Of these, those that were returned.")                                                   \
	X(units_burnt, "weir_lease_units_burnt", COUNTER, "",                                      \
	  "Of these, those that nobody will spend: their time was over first.")                    \
	X(overshoot, "weir_overshoot_ratio", GAUGE, "ratio",                                       \
	  "Bound of what is admitted above limits that are eventual, as a share of the worst.")    \
	X(exchanges, "weir_exchanges", COUNTER, "", "Counters exchanged with other nodes.")        \
	X(pushes, "weir_pushes", COUNTER, "", "Counters told to other regions.")                   \
	X(regions, "weir_regions", GAUGE, "", "Other regions that are told.")                      \
	X(regions_up, "weir_regions_up", GAUGE, "", "Of these, those whose store answers.")        \
	X(queue_depth, "weir_queue_depth", GAUGE, "", "Deferred requests that wait.")              \
	X(queue_bytes, "weir_queue_bytes", GAUGE, "bytes", "Bytes of deferred requests kept.")     \
	X(queue_oldest, "weir_queue_oldest_age_seconds", GAUGE, "seconds",                         \
	  "How long the oldest of them has waited.")                                               \
	X(queue_dead, "weir_queue_dead_letters", GAUGE, "",                                        \
	  "Deferred requests that were given up and are kept.")                                    \
	X(queue_sending, "weir_queue_sending", GAUGE, "", "Deliveries under way.")                 \
	X(queue_target_up, "weir_queue_target_up", GAUGE, "",                                      \
	  "1: the API server they are delivered to can be reached.")                               \
	X(queue_stored, "weir_queue_stored", COUNTER, "", "Requests this process has deferred.")   \
	X(queue_delivered, "weir_queue_delivered", COUNTER, "",                                    \
	  "Deferred requests it has delivered: the API server gave a final answer.")               \
	X(queue_retried, "weir_queue_retried", COUNTER, "",                                        \
	  "Deliveries that failed and are tried again.")                                           \
	X(queue_died, "weir_queue_dead", COUNTER, "",                                              \
	  "Deferred requests it has given up, for their age or after too many tries.")             \
	X(queue_refused, "weir_queue_refused", COUNTER, "",                                        \
	  "Requests that could not be deferred and were refused, by the reason.")                  \
	X(log_lines, "weir_decision_log_lines", COUNTER, "",                                       \
	  "Lines of this process's decision log, by what became of them.")                         \
	X(connections, "weir_connections", GAUGE, "", "Clients connected to this process.")

enum wr_metric {
#define WR_METRIC_ENUM(id, name, type, unit, help) WR_METRIC_##id,
	WR_METRICS(WR_METRIC_ENUM)
#undef WR_METRIC_ENUM
};

extern const struct wr_prom_family wr_metrics[];

/* Each writes some of the families; in metrics_table.c and metrics_node.c. */
void wr_metrics_put_table(struct wr_prom *prom, const struct weir_info *info);
void wr_metrics_put_engine(struct wr_prom *prom, struct weir_engine *engine);
void wr_metrics_put_latency(struct wr_prom *prom, struct weir_table *table);
void wr_metrics_put_hosts(struct wr_prom *prom, struct weir_table *table);
void wr_metrics_put_gauges(struct wr_prom *prom, struct weir_table *table, uint64_t now_ns);

/* Writes a family of one sample without labels. */
void wr_metrics_put(struct wr_prom *prom, enum wr_metric metric, uint64_t value);

#endif
