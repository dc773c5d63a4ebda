// The machine below a simulated agent: program files, forks, kills, and bulk transfers.
#include "protocol/codec/messages.h"
#include "sim/agent_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {

void Agent::prepare(const ProgramRecord& program) {
  programs_.insert(program.id);
  const Duration wait = world().forks().between(Duration(100us), Duration(30ms));
  world().kernel().after(wait, [this, program] {
    worker::ProgramPrepared prepared;
    prepared.program = program.id;
    for (const auto& file : program.files) {
      if (!node_.files.contains(file.hash)) prepared.missing.push_back(file);
    }
    if (prepared.missing.empty() && node_.plan.cannot_start) {
      prepared.failure = failure(ErrorCode::invalid_argument, "simulated: libgone.so: not found");
    }
    if (!prepared.missing.empty() || prepared.failure) programs_.erase(program.id);
    take(std::move(prepared));
  });
}

void Agent::fork_executor(const worker::StartExecutor& start) {
  const Duration wait = world().forks().between(Duration(300us), Duration(8ms));
  const bool fails = world().weather().fork_fails > 0 && world().forks().chance(400);
  world().checkers().executor_forked(*this, start);
  world().kernel().after(wait, [this, start, fails] {
    if (!alive()) return;
    if (fails) {
      return take(worker::ExecutorStartFailed{start.slot, start.generation,
                                              "simulated: fork failed", false});
    }
    Process& process = world().add_executor(node_, start);
    auto connection = connect(process);
    process.inherit(connection, address_.incarnation);
    world().checkers().executor_started(process);
    AssignExecutor assignment = start.assign;
    assignment.ticket = "ticket";
    assignment.seed = 1;
    // The shell sends the assignment before any message of the core.
    world().transmit(connection->down, [connection, bytes = encode(AgentToProcess(assignment))] {
      if (connection->open) connection->process->on_agent_message(connection, bytes);
    });
    take(worker::ExecutorStarted{start.slot, start.generation, process.pid(), connection->link});
  });
}

void Agent::kill_executor(const worker::KillExecutor& kill) {
  world().kernel().after(world().forks().between(Duration(50us), Duration(3ms)), [this, kill] {
    for (Process* executor : node_.executors) {
      if (executor->slot() != kill.slot || executor->generation() != kill.generation) continue;
      EndCause cause;
      cause.kind = EndKind::signalled;
      cause.signal = 9;
      cause.text = kill.why;
      return executor->die(cause);
    }
  });
}

// Follows the shell: the core receives samples while memory is short, and one more when the
// shortage ends.
void Agent::sample_memory() {
  if (!alive()) return;
  world().kernel().after(Duration(250ms), [this] { receive([this] { sample_memory(); }); });
  const std::int64_t limit = node_.plan.memory_mib;
  worker::MemorySampled sample{"memory of the node", 0, limit << 20, {}};
  std::int64_t used = 0;
  for (const Process* executor : node_.executors) {
    const std::int64_t own = 5 + executor->memory_mib(world().now());
    used += own;
    sample.executors.push_back({executor->slot(), executor->generation(), own << 20});
  }
  sample.used_bytes = used << 20;
  world().checkers().memory_sampled(*this, used, limit);
  const bool is_short = used * 1000 > limit * 950;
  if (!is_short && !memory_reported_) return;
  memory_reported_ = is_short;
  world().trace().fold(world().now(), number(), "memory", static_cast<std::uint64_t>(used));
  step(std::move(sample));
}

// ---- the disk for spilled objects --------------------------------------------------------------

Duration Agent::disk_delay() {
  Random& chance = world().spill_chance();
  return world().weather().spill_slow > 0 ? chance.between(Duration(100ms), Duration(4s))
                                          : chance.between(Duration(100us), Duration(20ms));
}

// Reads the bytes when the delay is over: they must stay in place until then.
void Agent::write_spilled(const worker::StartSpill& spill) {
  const bool fails = world().weather().spill_fails > 0 && world().spill_chance().chance(600);
  world().kernel().after(disk_delay(), [this, spill, fails] {
    if (!alive()) return;
    worker::SpillFinished finished;
    finished.file = spill.file;
    if (fails) {
      finished.failure = failure(ErrorCode::resource_exhausted, "simulated: the disk is full");
      return take(std::move(finished));
    }
    auto& file = node_.spilled[spill.file];
    std::uint64_t offset = 0;
    for (const worker::SpillItem& item : spill.items) {
      const Content& content =
          node_.memory[{item.slab.bits().low, static_cast<std::int64_t>(item.offset)}];
      if (content.object != item.object && core_.objects().find(item.object) != nullptr) {
        world().violation("spilling", name() + " writes object " + item.object.brief() +
                                          " from where " + content.object.brief() + " lies");
      }
      file[offset] = content;
      finished.items.push_back({offset, item.object.bits()});
      offset += item.size_bytes;
    }
    take(std::move(finished));
  });
}

void Agent::read_spilled(const worker::StartRestore& restore) {
  world().kernel().after(disk_delay(), [this, restore] {
    if (!alive()) return;
    worker::RestoreFinished finished;
    finished.restore = restore.restore;
    const auto file = node_.spilled.find(restore.file);
    const Content* content = nullptr;
    if (file != node_.spilled.end()) {
      const auto at = file->second.find(restore.file_offset);
      if (at != file->second.end()) content = &at->second;
    }
    if (failed_slabs_.contains(restore.slab.bits().low)) {
      finished.failure = failure(ErrorCode::resource_exhausted, "simulated: no memory");
    } else if (content == nullptr || content->object.bits() != restore.checksum) {
      finished.failure = failure(ErrorCode::corrupt, "simulated: its bytes on disk are damaged");
    } else {
      arriving_.erase({restore.slab.bits().low, static_cast<std::int64_t>(restore.offset)});
      node_.memory[{restore.slab.bits().low, static_cast<std::int64_t>(restore.offset)}] = *content;
    }
    take(std::move(finished));
  });
}

}  // namespace mobula::internal::sim
