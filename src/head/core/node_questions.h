// Questions of tools that agents answer: which logs there are, what stands in one, how busy nodes are. Asks
// the agents, gathers what they say, and answers when all have, or after `list_within`, naming who is
// missing. A reader of a log asks for one part after another, each by the place that the part before has
// named; so nothing is kept here for readers, and one that is slow holds up nobody. Owned by one HeadCore;
// not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "head/core/inputs.h"

namespace mobula::internal::head {

struct Parts;

struct NodeUsage {
  UsageTold usage;
  std::int64_t head_ms = 0;  // wall clock of the head when it received the usage
};

class NodeQuestions {
 public:
  explicit NodeQuestions(Parts& parts) : parts_(parts) {}

  // What has logs: `argument` is a word ("head", "agent"), the id of a node, slot, actor, executor or job, the
  // beginning of one, or nothing: all there are.
  void ask_logs(LinkId link, const ToolRequest& request);
  // A part of a log: `argument` is {"node_id", "log"}, as an item of the list has them, `kind` the place.
  void ask_log(LinkId link, const ToolRequest& request);
  // What nodes and executors use: `argument` is the id of a node, or nothing.
  void ask_usage(LinkId link, const ToolRequest& request);

  void told(NodeId node, LogsListed&& listed);
  void told(NodeId node, LogPart&& part);
  void told(NodeId node, const UsageTold& usage);
  void node_died(NodeId node);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_gathering = 64;  // lists and usages
  static constexpr std::size_t max_reading = 128;
  static constexpr std::uint64_t part_bytes = 128u << 10;
  static constexpr std::uint64_t max_logs = 4'000;  // of one node, and of one answer
  static constexpr std::uint64_t max_usages = 10'000;  // executors of one answer

  // A log as it was found: where it is, and of whom.
  struct Source {
    NodeId node;
    std::string log;
    JobId job{};
    ActorId actor{};
    ProcessId process{};
    bool open = false;  // it is a slot, or an agent, that there is now
    std::string fault{};  // why it cannot be read
  };
  struct Question {
    enum class About : std::uint8_t { logs, usage };
    About about = About::logs;
    LinkId link = 0;
    std::uint64_t request = 0;
    std::string subject;               // of logs; empty: all
    bool by_job = false;               // the agents were asked for those of the subject alone
    std::vector<Source> sources;       // known beforehand
    std::set<NodeId> missing;
    std::map<NodeId, LogsListed> logs;
    std::map<NodeId, NodeUsage> usages;
    std::vector<std::string> warnings;
    Time until;
  };
  struct Reading {
    LinkId link = 0;
    std::uint64_t request = 0;
    NodeId node;
    Time until;
  };

  void refuse(LinkId link, std::uint64_t request, ErrorCode code, std::string why);
  std::vector<Source> sources_of(const std::string& subject) const;
  void add_source(std::vector<Source>& sources, Source source) const;
  void add_past(std::vector<Source>& sources, const std::string& subject) const;
  void ask_nodes(std::uint64_t number, Question question, const HeadMessage& message);
  Question* awaited(std::uint64_t number, NodeId node);
  void settle(std::uint64_t number);
  void settle_logs(Question& question);
  bool is_live(const Question& question, const nlohmann::ordered_json& items) const;
  void settle_usage(Question& question);

  Parts& parts_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Question> questions_;
  std::map<std::uint64_t, Reading> readings_;
};

}  // namespace mobula::internal::head
