// The simulated head process: the core, its connections to agents, and the disk of its journal. One
// object is one run of the head; a restart makes a new object with the contents of the disk.
// Thread: the simulator's only thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "head/core/head_core.h"
#include "sim/pipe.h"
#include "sim/role.h"

namespace mobula::internal::sim {

class Agent;

// A connection between an agent and the head.
struct HeadConnection {
  head::LinkId link = 0;
  Agent* agent = nullptr;
  PipePointer up, down;
  bool open = true;
};

class Head final : public Role {
 public:
  Head(World& world, std::uint64_t life);

  void start();
  void crash();
  void accepted(const std::shared_ptr<HeadConnection>& connection);
  void on_bytes(const std::shared_ptr<HeadConnection>& connection, const Bytes& bytes);
  void link_lost(head::LinkId link);
  // Sends an operator's request to drain a node. `incarnation`: the present incarnation of the
  // node.
  void drain(NodeId node, ProcessId incarnation);
  // Sends an operator's request to undrain a node.
  void undrain(NodeId node, ProcessId incarnation);
  // Breaks a connection. Both sides are notified.
  void break_link(std::uint64_t which);

  const head::HeadCore& core() const { return core_; }

 private:
  std::optional<Time> deadline() const override { return core_.next_deadline(); }
  void tick() override { step(head::Tick{}); }
  void woke(Duration gap) override { step(head::Paused{gap}); }

  void step(head::Event event);
  void read_status();
  void carry_out(head::Command& command);
  void send(head::LinkId link, const HeadToAgent& message);
  void persist(head::Persist batch);
  void commit_next();

  head::HeadCore core_;
  std::uint64_t life_;
  std::map<head::LinkId, std::shared_ptr<HeadConnection>> links_;
  struct Order {
    ProcessId incarnation;
    bool back = false;
  };
  void order(const char* verb, NodeId node, Order order);
  std::map<std::uint64_t, Order> orders_;  // by request
  std::deque<head::Persist> to_commit_;
  bool committing_ = false;
  std::uint64_t steps_ = 0;
};

}  // namespace mobula::internal::sim
