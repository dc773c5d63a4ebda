// What this process has for others: the tensors that stay in it, and who is being given them. Bytes are
// freed when nobody wants them and nobody can reach them any more, not before. Of a large object a few
// readers are served at a time, and the others wait. Of a part of one it is one reader; the others are sent to
// those who have kept it, or wait for one. Who has become one is given half of those that wait, and gives on half of
// its own: a tree. What was kept of others' objects is given in the same way, until it is retired.
// What one reader may have at a time is bounded, and one that is slow, stopped
// or means harm gives its place among those served to others after a while: it may go on, nothing is taken
// from it, and its own bound stands. Not thread-safe: a part of RegionExchange.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/table.h"
#include "transfer/core/region_steps.h"
#include "transfer/core/region_types.h"

namespace mobula::internal::transfer {

class RegionServes {
 public:
  RegionServes(RegionContext& context, RegionSteps& steps) : context_(context), steps_(steps) {}

  // `lane`: the device of this process that has it.
  void publish(ObjectId object, std::uint64_t size_bytes, std::uint32_t lane);
  // A part of another process's object has come from `from`, and may be given on. False where it may not be: the
  // object is no copy here, or one that has been retired.
  bool keep(ObjectId object, std::uint64_t size_bytes, std::uint32_t part, ProcessId from);
  // Nobody here or elsewhere has a ref of it any more, or nobody here has the copy.
  void retire(ObjectId object);
  // Into the object store, as soon as nobody is being given it.
  void evacuate(ObjectId object);
  void stored(ObjectId object, const std::optional<Failure>& failure);

  void heard(ProcessId from, const PullRegions& message);
  void heard(ProcessId from, const RegionsTaken& message);
  void heard(ProcessId from, const RegionsLeft& message);
  void heard(ProcessId from, const RegionCopyGone& message);
  void heard(ProcessId from, const RegionsParting& message);
  bool exported(OperationId operation, const Result<std::string>& ticket);
  bool ended(OperationId operation);
  // Of a side that sends.
  void side_news(const SideNews& news);
  void peer_gone(ProcessId peer);
  void tick();
  std::optional<Time> next_deadline() const;

  bool has(ObjectId object) const { return rows_.contains(object); }
  // Some part of it is given on.
  bool has_copy(ObjectId object) const {
    const auto* row = rows_.find(object);
    return row != nullptr && row->is_copy && !row->retired;
  }
  // Of its objects, and it sends others here for them.
  bool keeps_of(ProcessId holder) const;
  std::size_t size() const { return rows_.size(); }
  std::size_t serves() const { return serves_.size(); }

 private:
  using ServeId = std::uint64_t;
  enum class Stage : std::uint8_t {
    waiting,     // for others to be done, or for a copy elsewhere
    exporting,
    ready,       // the receiver has the ticket; two-sided: steps go on
    stopping,    // its side of the steps is to be quiet first
    unexporting,
  };
  struct Serve {
    ProcessId peer;
    TransferId transfer = 0;
    ObjectId object;
    std::uint32_t part = 0;
    DirectPath path = DirectPath::shm;
    RegionChannel channel;  // two-sided
    bool may_redirect = true;
    Stage stage = Stage::waiting;
    bool over = false;      // exporting: to be unexported at once
    bool counted = false;   // among those whose number is bounded
    std::optional<Time> due{};  // when it is counted no more
    OperationId operation = 0;  // of the export
    std::string ticket;
  };
  struct Part {
    std::size_t counted = 0;  // of those that have it exported
    std::deque<ServeId> waiting{};
    std::vector<ProcessId> copies{};
    std::size_t next_copy = 0;
  };
  struct Row {
    std::uint64_t size_bytes = 0;
    std::uint32_t lane = 0;
    bool is_copy = false;              // of another process's
    std::set<std::uint32_t> kept{};    // a copy: the parts that are here
    std::set<ProcessId> told{};        // and who sends others here for them
    std::map<std::uint32_t, Part> parts{};  // that are given, have been, or are waited for; 0: all of it
    std::vector<ServeId> active{};
    std::size_t waiting = 0;  // of all parts
    bool retired = false;
    bool leaving = false;   // to the store
    bool storing = false;   // and is being written
  };

  struct PeerUse {
    std::size_t active = 0, parts = 0, waiting = 0;  // parts: of the active ones
  };

  std::size_t most_at_once(const Row& row, const Serve& serve) const;
  bool may_start(const Row& row, const Serve& serve) const;
  // Others have it, and this process has something else to send.
  bool is_better_elsewhere(const Row& row, const Serve& serve) const;
  bool is_part(const Row& row, std::uint32_t part) const;
  // It keeps nobody from a place any more.
  void discount(ServeId id, Serve& serve, Row& row);
  // Of one that waits, whose place in line is gone.
  void leave_line(const Serve& serve, Row& row);
  template <class Which>
  void refuse_waiting(Row& row, RegionRefusal why, const std::string& text, Which which);
  void start(ServeId id, Serve& serve, Row& row);
  void say_ready(const Serve& serve);
  void refuse(const Serve& serve, RegionRefusal why, std::string text = {}, std::vector<ProcessId> others = {});
  // Sends a reader to a copy that is not its own; false if there is none.
  bool redirect(const Serve& serve, Row& row);
  void end_all_of(ProcessId peer);
  // The reader has it all (`taken`), or is gone, or was refused.
  void end(ServeId id, bool taken = false);
  void unexport(ServeId id, Serve& serve);
  void gone(ServeId id);
  // Those that wait, as far as there is room for them now.
  void go_on(ObjectId object);
  void go_on_all();
  void settle(ObjectId object);

  RegionContext& context_;
  RegionSteps& steps_;
  Table<ObjectId, Row> rows_;
  std::set<ObjectId> stored_;  // that are here no more and lie in the store, until they are retired
  std::map<ServeId, Serve> serves_;
  std::map<std::pair<ProcessId, TransferId>, ServeId> by_transfer_;
  std::map<OperationId, ServeId> operations_;
  std::map<ProcessId, PeerUse> peers_;
  std::set<std::pair<Time, ServeId>> due_;
  std::size_t counted_ = 0, waiting_ = 0;
  ServeId last_ = 0;
};

}  // namespace mobula::internal::transfer
