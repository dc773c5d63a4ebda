// Queries of tools that agents answer: lists of logs, contents of logs, and usage of nodes. A reply
// is sent when all agents have answered, or after `list_timeout` with the names of the missing
// ones.
// Thread: owner (one HeadCore).
// Not: state of log readers. A reader requests one chunk after another, each by the position that
// the previous reply returned, so a slow reader delays no other query.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "head/core/head_events.h"
#include "head/core/query/fan_out.h"

namespace mobula::internal::head {

struct HeadTables;

// Members of a reply: all, or those of a view of the web page, which has no items.
enum class UsagePart : std::uint8_t { all, nodes, gpus };

struct NodeUsage {
  UsageReply usage;
  std::int64_t head_ms = 0;  // wall clock of the head when it received the usage
};

class NodeQuery {
 public:
  explicit NodeQuery(HeadTables& tables) : tables_(tables) {}

  // Lists logs. `argument` is "head", "agent", the id or id prefix of a node, slot, actor,
  // executor, or job, or empty for all logs. If `kind` is "part", the reply is a part of the list
  // (list_part.h), and `argument` its limit and text: open logs first, then the latest. The id of a
  // process or an actor finds the logs of its slots.
  void query_logs(LinkId link, const ToolRequest& request);
  // Reads a chunk of a log. `argument` is {"node_id", "log"} as in an item of the list, and `kind`
  // is the position.
  void query_log(LinkId link, const ToolRequest& request);
  // Returns the usage of nodes and executors. `argument` is the id of a node or empty. `kind` is
  // empty, "nodes", or "gpus" for a part (UsagePart).
  void query_usage(LinkId link, const ToolRequest& request);

  void on(NodeId node, LogsReply&& listed);
  void on(NodeId node, ReadLogReply&& log);
  void on(NodeId node, const UsageReply& usage);
  void node_died(NodeId node);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_gathering = 64;  // lists of logs and usage
  static constexpr std::size_t max_reading = 128;
  static constexpr std::uint64_t log_chunk_bytes = 128u << 10;
  static constexpr std::uint64_t max_logs = 4'000;  // logs per node and per reply
  // Logs that a part requests: of a node at least, or of all nodes if they are searched.
  static constexpr std::uint64_t least_listed = 8;
  static constexpr std::uint64_t least_searched = 20;
  static constexpr std::uint64_t max_searched = 20'000;
  static constexpr std::uint64_t max_usages = 10'000;  // executors per reply

  // Location and subject of a log.
  struct Source {
    NodeId node;
    std::string log;
    JobId job{};
    ActorId actor{};
    ProcessId process{};
    bool open = false;    // its slot or agent exists now
    std::string fault{};  // reason why it cannot be read
  };
  struct Question {
    enum class About : std::uint8_t { logs, usage };
    About about = About::logs;
    UsagePart part = UsagePart::all;
    LinkId link = 0;
    std::uint64_t request = 0;
    std::string subject;          // subject of a list of logs; empty: all
    std::size_t part_limit = 0;   // rows of a part of the list; 0: the whole list
    std::string find{};           // text of its rows
    bool by_job = false;          // the agents received a query for the logs of this job only
    std::vector<Source> sources;  // known before the query
    std::map<NodeId, LogsReply> logs;
    std::map<NodeId, NodeUsage> usages;
    std::vector<std::string> warnings;
  };
  // A log of a reply, with the report of its agent if there is one.
  struct LogRow {
    Source source;
    const LogFact* fact = nullptr;
  };
  struct Reading {
    LinkId link = 0;
    std::uint64_t request = 0;
    NodeId node;
  };
  using Queries = FanOut<NodeId, Question>;

  void query_logs_part(LinkId link, const ToolRequest& request);
  void refuse(LinkId link, std::uint64_t request, ErrorCode code, std::string why);
  std::vector<Source> sources_of(const std::string& subject) const;
  void add_source(std::vector<Source>& sources, Source source) const;
  void add_past(std::vector<Source>& sources, const std::string& subject) const;
  void query_nodes(std::uint64_t number, Question question, const HeadMessage& message);
  void settle(std::optional<Queries::Finished>&& finished);
  std::vector<LogRow> log_rows(const Question& question) const;
  nlohmann::ordered_json log_json(const LogRow& row) const;
  void settle_logs(Question& question);
  void add_logs_part(Question& question, std::vector<LogRow> rows, std::size_t left_out,
                     nlohmann::ordered_json& json) const;
  bool is_live(const Question& question, const nlohmann::ordered_json& items) const;
  void settle_usage(Question& question);

  HeadTables& tables_;
  Queries queries_{max_gathering};
  FanOut<NodeId, Reading> readings_{max_reading};  // numbered by `queries_`
};

}  // namespace mobula::internal::head
