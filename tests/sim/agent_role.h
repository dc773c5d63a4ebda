// The simulated worker agent: the core of one incarnation, its connections, and its machine's work
// (forks, slabs, bulk transfers, program files).
// Thread: the simulator's only thread.
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

// The local socket between a process and its agent: reliable and ordered. It closes when either
// side exits.
struct LocalConnection {
  worker::LinkId link = 0;
  Agent* agent = nullptr;
  Process* process = nullptr;
  PipePointer up, down;
  bool open = true;
};

// Options of every agent in a history.
worker::WorkerOptions agent_options(const World& world);

// A location that the bulk server offers for reading.
struct Offer {
  LocationKey location{};
  bool file = false;
  std::uint64_t size_bytes = 0;
  ProcessId reader{};
  int reading = 0;  // chunks being sent
  bool withdrawn = false;
};

// A location, or a program file, whose bytes arrive in chunks.
struct Arriving {
  std::uint64_t pull = 0;
  Content content{};
  std::map<std::uint64_t, std::uint64_t> parts{};  // chunk sizes by offset
  Hash128 file{};
};

class Agent final : public Role {
 public:
  Agent(World& world, Node& node);

  void start();
  // Ends the agent process, its executors, and its connections. The world starts a new incarnation.
  void crash(const std::string& why);

  // ---- the head --------------------------------------------------------------------------------
  void dial();
  void head_link_lost(const std::shared_ptr<HeadConnection>& connection);
  void head_said(const std::shared_ptr<HeadConnection>& connection, const Bytes& bytes);
  void reset_head_link();

  // ---- processes -------------------------------------------------------------------------------
  std::shared_ptr<LocalConnection> connect(Process& process);
  void process_said(const std::shared_ptr<LocalConnection>& connection,
                    const ProcessToAgent& message);
  void process_gone(const std::shared_ptr<LocalConnection>& connection);
  void executor_exited(SlotId slot, std::uint32_t generation, const EndCause& cause);

  // ---- other agents ----------------------------------------------------------------------------
  void on_peer_message(ProcessId from, const Bytes& bytes);
  void peer_link(ProcessId incarnation, bool connected);

  void take(worker::Event event);  // an outcome of the machine's work
  const worker::WorkerCore& core() const { return core_; }
  const AgentAddress& address() const { return address_; }
  Node& node() { return node_; }
  std::size_t slabs() const { return slabs_.size(); }
  std::size_t programs() const { return programs_.size(); }
  const std::map<LocationKey, Arriving>& arriving() const { return arriving_; }
  // Breaks all bulk connections to other agents.
  void break_bulk();

 private:
  std::optional<Time> deadline() const override { return core_.next_deadline(); }
  void tick() override { step(worker::Tick{}); }
  void woke(Duration gap) override { step(worker::Paused{gap}); }

  void step(worker::Event event);
  void note_readers(const worker::Command& command);
  bool news_is_lost(const AgentToHead& message);
  void carry_out(worker::Command& command);
  void send_head(const AgentToHead& message);
  void sample_memory();
  bool in_failed_slab(const worker::SendToProcess& command) const;
  void send_peer(const worker::SendToPeer& command);
  void send_process(worker::LinkId link, const AgentToProcess& message);
  void prepare(const ProgramRecord& program);
  void fork_executor(const worker::StartExecutor& start);
  void kill_executor(const worker::KillExecutor& kill);
  void offer(const worker::OfferObject& object);
  void offer(const worker::OfferFile& file);
  void offer_bytes(std::uint64_t number, const Offer& offer, ProcessId reader, bool plain);
  std::string token_for(ProcessId reader) const;
  void withdraw(std::uint64_t number);
  void end_offer(std::uint64_t number);
  Offer* begin_reading(std::uint64_t number, ProcessId reader, const std::string& token);
  void end_reading(std::uint64_t number);
  const Content* part(LocationKey location, std::uint64_t offset);
  void fetch(const worker::FetchBulk& command);
  void arrives(Agent* source, bool served, const worker::FetchBulk& command,
               std::optional<Failure> why);
  void write(Agent& source, const worker::FetchBulk& command);
  static std::uint64_t sum_of(const Arriving& arriving);
  void chunk_ended(std::uint64_t chunk, std::optional<Failure> why);
  void finish_file(std::uint64_t pull);
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
  std::map<std::uint64_t, Offer> offers_;
  std::map<std::uint64_t, worker::FetchBulk> flights_;  // by chunk
  std::map<LocationKey, Arriving> arriving_;
  std::map<std::uint64_t, Arriving> files_;  // by pull
  bool memory_reported_ = false;
};

}  // namespace mobula::internal::sim
