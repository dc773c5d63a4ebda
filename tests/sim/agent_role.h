// The simulated worker agent: the core of one incarnation, its connections, and the machine's part of
// its work (forking, slabs, bulk transfers, program files). One thread.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "sim/head_role.h"
#include "sim/pipe.h"
#include "sim/role.h"
#include "sim/world.h"
#include "worker/core/worker_core.h"

namespace mobula::internal::sim {

// The local socket between a process and its agent: reliable, ordered, ends with either.
struct LocalConnection {
  worker::LinkId link = 0;
  Agent* agent = nullptr;
  Process* process = nullptr;
  PipePointer up, down;
  bool open = true;
};

class Agent final : public Role {
 public:
  Agent(World& world, Node& node);

  void start();
  // Ends the process, its executors and its connections; the world starts a new incarnation.
  void crash(const std::string& why);

  // ---- the head --------------------------------------------------------------------------------
  void dial();
  void head_link_lost(const std::shared_ptr<HeadConnection>& connection);
  void head_said(const std::shared_ptr<HeadConnection>& connection, const Bytes& bytes);
  void reset_head_link();

  // ---- processes -------------------------------------------------------------------------------
  std::shared_ptr<LocalConnection> connect(Process& process);
  void process_said(const std::shared_ptr<LocalConnection>& connection, const ProcessToAgent& message);
  void process_gone(const std::shared_ptr<LocalConnection>& connection);
  void executor_exited(SlotId slot, std::uint32_t generation, const EndCause& cause);

  // ---- other agents ----------------------------------------------------------------------------
  void peer_said(ProcessId from, const Bytes& bytes);
  void peer_link(ProcessId incarnation, bool connected);

  void take(worker::Event event);  // an outcome of the machine's work
  const worker::WorkerCore& core() const { return core_; }
  const AgentAddress& address() const { return address_; }
  Node& node() { return node_; }
  std::size_t slabs() const { return slabs_.size(); }
  std::size_t programs() const { return programs_.size(); }

 private:
  std::optional<Time> deadline() const override { return core_.next_deadline(); }
  void tick() override { step(worker::Tick{}); }
  void woke(Duration gap) override { step(worker::Paused{gap}); }

  void step(worker::Event event);
  bool news_is_lost(const AgentToHead& message);
  void carry_out(worker::Command& command);
  void send_head(const AgentToHead& message);
  void look_at_memory();
  bool in_failed_slab(const worker::SendProcess& command) const;
  void send_peer(const worker::SendPeer& command);
  void send_process(worker::LinkId link, const AgentToProcess& message);
  void prepare(const ProgramRecord& program);
  void fork_executor(const worker::StartExecutor& start);
  void kill_executor(const worker::KillExecutor& kill);
  void offer(std::uint64_t number, PlaceKey place, bool file, std::int64_t size_bytes);
  void pull(std::uint64_t number, const std::string& token, PlaceKey place, std::optional<Hash128> file);
  void pull_ended(std::uint64_t number, std::optional<Failure> failure);
  void served(const std::string& token);
  void write_spilled(const worker::StartSpill& spill);
  void read_spilled(const worker::StartRestore& restore);
  Duration disk_delay();

  Node& node_;
  AgentAddress address_;
  worker::WorkerCore core_;
  std::shared_ptr<HeadConnection> head_;
  std::map<worker::LinkId, std::shared_ptr<LocalConnection>> links_;
  std::map<ProcessId, PipePointer> peers_;
  std::set<SlabId> slabs_;
  std::set<std::uint64_t> failed_slabs_;
  std::set<ProgramId> programs_;
  std::set<std::uint64_t> pulls_;
  bool told_of_memory_ = false;
};

}  // namespace mobula::internal::sim
