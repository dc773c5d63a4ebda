// The shell executes the commands of the core.

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/logging/log.h"
#include "base/model/granted_threads.h"
#include "base/model/jobs/job_files_variable.h"
#include "device/framework_limits.h"
#include "device/mask.h"
#include "worker/transfers/mapped_file.h"
#include "worker/worker_service.h"

namespace mobula::internal::worker {
namespace {

std::vector<EnvironmentVariable> variables_of(const Environment& environment) {
  return {environment.begin(), environment.end()};
}

}  // namespace

// ---- messages -----------------------------------------------------------------------------------

void WorkerService::carry_out(SendToHead& command) { head_->send(command.message); }

void WorkerService::carry_out(SendToPeer& command) { peers_->send(command.to, command.frame); }

// True if the message names a location in a slab whose memory is not available. The core does not
// know this yet, and will revoke the location.
bool WorkerService::speaks_of_no_slab(const AgentToProcess& message) const {
  const auto missing = [this](const SlabRange& location) {
    return location.slab != 0 && slabs_.by_number(location.slab).empty();
  };
  if (const auto* reserved = std::get_if<ReserveObjectReply>(&message)) {
    return !reserved->failure && missing(reserved->location);
  }
  const auto* readable = std::get_if<FetchObjectReply>(&message);
  return readable != nullptr && !readable->failure && missing(readable->location);
}

// The descriptor for the message. The writer of a slab receives it again for reading, because it
// has only a writable mapping.
std::optional<Fd> WorkerService::slab_for(SendToProcess& command, bool& failed) {
  Result<Fd> file = failure(ErrorCode::not_found, "no slab");
  if (auto* readable = std::get_if<FetchObjectReply>(&command.message)) {
    const std::uint64_t number = readable->location.slab;
    if (readable->failure || number == 0) return std::nullopt;
    if (!readable_[command.link].insert(number).second) return std::nullopt;
    readable->new_slab = true;
    file = slabs_.for_reader(slabs_.by_number(number));
    if (!file) readable_[command.link].erase(number);
  } else {
    if (const auto* retired = std::get_if<UnmapSlabRequest>(&command.message)) {
      readable_[command.link].erase(retired->slab);
    }
    if (command.slab.empty()) return std::nullopt;
    file = slabs_.for_writer(command.slab);
  }
  if (file) return std::move(*file);
  failed = true;
  log_warn("a message about a slab was not sent: {}", file.error().text);
  return std::nullopt;
}

void WorkerService::carry_out(SendToProcess& command) {
  if (!links_.is_open(command.link)) return;
  if (speaks_of_no_slab(command.message)) return;
  bool failed = false;
  auto slab = slab_for(command, failed);
  if (failed) return;
  std::vector<Fd> fds;
  if (slab) fds.push_back(std::move(*slab));
  links_.send(command.link, command.message, std::move(fds));
}

void WorkerService::carry_out(WelcomeDriver& command) {
  command.reply.ticket = signer_.sign(command.principal, command.process, command.curve_key);
  links_.send(command.link, command.reply);
  rings_.joined(command.link, command.process, command.principal.job);
}

void WorkerService::carry_out(CloseProcess& command) { links_.close(command.link); }

void WorkerService::carry_out(UseIdentity& command) {
  for (const auto& warning : command.warnings) log_error("{}", warning);
  signer_.use(std::move(command.ticket), std::move(command.head_signing_key));
  if (std::exchange(registered_, true)) return;
  log_info("registered with the head at {} as node {}", options_.head_address,
           options_.node.brief());
  if (options_.on_registered) options_.on_registered(agent_file());
}

// ---- programs and executors ---------------------------------------------------------------------

void WorkerService::carry_out(AddProgram& command) { programs_->add(command.pid, command.program); }

void WorkerService::carry_out(PrepareProgram& command) {
  step(programs_->prepare(command.program));
}

void WorkerService::carry_out(ForgetJob& command) { slots_->retire(command.job); }

void WorkerService::carry_out(ForgetProgram& command) {
  slots_->retire(command.program);
  programs_->forget(command.program);
}

// Data that only the shell has: secrets, paths, and device names.
Environment WorkerService::masks_of(const Allocation& allocation, const Environment& call_env,
                                    const Environment& job_env) const {
  return device_environment(options_.shape, allocation,
                            policy_for(options_.shape.device_policy, call_env, job_env),
                            options_.vendors_present);
}

// GPUs of the slot, if they are from NVIDIA: the GPUs that can hold tensors.
std::vector<LeasedGpu> WorkerService::gpus_of(const AssignExecutor& assign) const {
  std::vector<LeasedGpu> gpus;
  const ResourceShape* shape = options_.shape.find(resource::gpu);
  const ResourceShare* share = assign.allocation.find(resource::gpu);
  const bool of_nvidia =
      shape != nullptr && (shape->vendor.empty() || shape->vendor == row_of(Vendor::nvidia).name);
  if (!of_nvidia || share == nullptr) return gpus;
  std::map<std::uint32_t, const InstanceShare*> in_order;  // order of the device masks
  for (const InstanceShare& each : share->shares) in_order[each.index] = &each;
  for (const auto& [index, each] : in_order) {
    if (index >= shape->instances.size()) continue;
    const InstanceShape& instance = shape->instances[index];
    LeasedGpu& gpu = gpus.emplace_back();
    gpu.uuid = instance.uuid;
    gpu.amount = each->amount;
    gpu.memory_bytes = assign.demand_class.request.gpu_memory;
    gpu.context_bytes = instance.context_bytes;
    if (const auto peers = options_.gpu_peers.find(instance.uuid);
        peers != options_.gpu_peers.end())
      gpu.peers = peers->second;
  }
  return gpus;
}

void WorkerService::complete(AssignExecutor& assign, const Environment& job_env) const {
  assign.head_signing_key = signer_.head_signing_key();
  assign.resource_ids = all_instance_ids(options_.shape, assign.allocation);
  assign.accelerator_env = masks_of(assign.allocation, assign.demand_class.env, job_env);
  Environment users = job_env;
  users.insert(assign.demand_class.env.begin(), assign.demand_class.env.end());
  for (const auto& each : options_.pool.environment)
    users.try_emplace(each.substr(0, each.find('=')));
  assign.accelerator_env.merge(framework_limits(options_.shape, assign.allocation, users));
  assign.gpus = gpus_of(assign);
  assign.seed = random_bits().low;
}

// Variables of the user override those of the agent. In the loader's search path, the program's own
// directory is first.
ForkServerKey WorkerService::fork_server_key(const RunnableProgram& program,
                                             const StartExecutor& command) const {
  Environment environment = command.job_env;
  for (const auto& [name, value] : command.assign.demand_class.env) environment[name] = value;
  for (const auto& [name, value] : program.environment) {
    const auto users = environment.find(name);
    environment[name] = users == environment.end() ? value : value + ":" + users->second;
  }
  for (const auto& [name, value] : program.defaults) environment.try_emplace(name, value);
  for (const auto& [name, value] :
       masks_of(Allocation{}, command.assign.demand_class.env, command.job_env)) {
    environment[name] = value;
  }
  ForkServerKey key;
  key.job = command.assign.demand_class.job;
  key.program = program.path;
  key.argv = command.arguments;
  key.environment = variables_of(environment);
  key.working_directory = command.working_dir;
  key.scratch_directory = program.scratch_directory;
  key.is_interpreter = program.is_interpreter;
  return key;
}

void WorkerService::carry_out(StartExecutor& command) {
  watch_memory_soon();
  if (command.assign.actor.entry.given()) return run_entry(command);
  const RunnableProgram* program = programs_->find(command.program);
  Result<void> started = failure(ErrorCode::not_found, "the program is not prepared on this node");
  if (program != nullptr) {
    complete(command.assign, command.job_env);
    SlotStart start;
    start.program = command.program;
    start.fork_server = fork_server_key(*program, command);
    start.sign = [this, process = command.assign.process,
                  principal =
                      Principal{Role::executor, command.assign.actor.class_name,
                                command.assign.demand_class.job}](const std::string& public_key) {
      return signer_.sign(principal, process, public_key);
    };
    start.assign = std::move(command.assign);
    started = slots_->start(std::move(start));
  }
  if (started) return;
  step(ExecutorStartFailed{command.slot, command.generation, started.error().text, false});
}

void WorkerService::carry_out(KillExecutor& command) {
  slots_->kill(command.slot, command.generation, command.grace);
}

// ---- slabs and transfers ------------------------------------------------------------------------

void WorkerService::carry_out(CreateSlab& command) {
  const auto made = slabs_.create(command.slab, command.size_bytes, command.writer == incarnation_);
  if (!made) step(SlabFailed{command.slab, made.error()});
}

void WorkerService::carry_out(DropSlab& command) { slabs_.drop(command.slab); }

Result<BulkSpace> WorkerService::space_for(const FetchBulk& command) {
  if (command.slab.empty()) {
    const auto at = incoming_.find(command.pull);
    if (at == incoming_.end()) return failure(ErrorCode::not_found, "no pull of this file exists");
    if (!at->second.file) return at->second.file.error();
    const auto bytes = (*at->second.file)->writable();
    if (command.offset > bytes.size() || command.size_bytes > bytes.size() - command.offset) {
      return failure(ErrorCode::invalid_argument, "a part outside of its file");
    }
    return BulkSpace{bytes.subspan(command.offset, command.size_bytes), *at->second.file};
  }
  auto slab = slabs_.writable(command.slab);
  if (!slab) return slab.error();
  const auto bytes = (*slab)->bytes(command.slab_offset + command.offset, command.size_bytes);
  if (!bytes) return bytes.error();
  return BulkSpace{*bytes, *slab};
}

void WorkerService::carry_out(FetchBulk& command) { bulk_->fetch(command, space_for(command)); }

void WorkerService::carry_out(CancelBulk& command) { bulk_->cancel(command.chunk); }

void WorkerService::carry_out(StartFilePull& command) {
  const std::string path = programs_->incoming_path(command.file, std::to_string(command.pull));
  incoming_.insert_or_assign(
      command.pull, IncomingFile{path, command.file, MappedFile::create(path, command.size_bytes)});
}

// The store outlives the transfers.
void WorkerService::carry_out(FinishFilePull& command) {
  const auto at = incoming_.find(command.pull);
  if (at == incoming_.end()) return;
  bulk_->finish(command.pull, [store = programs_.get(), path = at->second.path,
                               file = at->second.hash] { return store->accept(path, file); });
}

// Deletes the bytes of a failed or cancelled pull. An accepted file has another path by now.
void WorkerService::carry_out(DropFilePull& command) {
  const auto at = incoming_.find(command.pull);
  if (at == incoming_.end()) return;
  ::unlink(at->second.path.c_str());
  incoming_.erase(at);
}

void WorkerService::carry_out(OfferObject& command) {
  bulk_->offer(command.offer, command.reader, command.plain,
               bytes_at(command.slab, command.offset, command.size_bytes));
}

void WorkerService::carry_out(OfferFile& command) {
  const auto open = [&]() -> Result<BulkSource> {
    const auto source = programs_->source_of(command.file, "offer");
    if (!source) return source.error();
    const auto file = ProgramStore::open_kept(*source);
    if (!file) return file.error();
    auto mapped = MappedFile::read(*file);
    if (!mapped) return mapped.error();
    return BulkSource{(*mapped)->bytes(), *mapped};
  };
  bulk_->offer(command.offer, command.reader, command.plain, open());
}

void WorkerService::carry_out(WithdrawBulk& command) { bulk_->withdraw(command.offer); }

// ---- spilling -----------------------------------------------------------------------------------

Result<BulkSource> WorkerService::bytes_at(SlabId id, std::uint64_t offset, std::uint64_t size) {
  auto slab = slabs_.readable(id);
  if (!slab) return slab.error();
  const auto bytes = (*slab)->bytes();
  if (offset > bytes.size() || size > bytes.size() - offset) {
    return failure(ErrorCode::invalid_argument, "an object outside of its slab");
  }
  return BulkSource{bytes.subspan(offset, size), *slab};
}

void WorkerService::carry_out(StartSpill& command) {
  std::vector<BulkSource> sources;
  for (const SpillItem& item : command.items) {
    auto source = bytes_at(item.slab, item.offset, item.size_bytes);
    if (!source) return step(SpillFinished{command.file, {}, source.error()});
    sources.push_back(std::move(*source));
  }
  disk_->write(command.file, std::move(sources));
}

void WorkerService::carry_out(StartRestore& command) {
  const auto refuse = [&](Failure why) {
    why.code = ErrorCode::resource_exhausted;  // the copy on disk stays
    step(RestoreFinished{command.restore, std::move(why)});
  };
  auto slab = slabs_.writable(command.slab);
  if (!slab) return refuse(slab.error());
  const auto bytes = (*slab)->bytes(command.offset, command.size_bytes);
  if (!bytes) return refuse(bytes.error());
  disk_->read(command, BulkSpace{*bytes, *slab});
}

void WorkerService::carry_out(DropSpillFile& command) { disk_->remove(command.file); }

// ---- the end ------------------------------------------------------------------------------------

void WorkerService::carry_out(Fence& command) {
  log_warn("{}", command.why);
  end_ = ServiceEnd{true, 0, command.why};
}

void WorkerService::carry_out(LogWarning& command) { log_warn("{}", command.text); }

// ---- submitted jobs -----------------------------------------------------------------------------

// A command without CPUs is a waiting driver; one with CPUs computes. Variables of the user have
// precedence.
void WorkerService::add_thread_variables(const Allocation& allocation,
                                         Environment& environment) const {
  if (allocation.find(resource::cpu) == nullptr) return;
  for (const std::string name : thread_variables) {
    const auto sets = [&](const std::string& each) { return each.starts_with(name + "="); };
    if (std::ranges::any_of(options_.pool.environment, sets)) continue;
    environment.try_emplace(name, std::to_string(granted_threads(allocation)));
  }
}

// A program that calls `init` joins the cluster through this agent.
void WorkerService::run_entry(StartExecutor& command) {
  complete(command.assign, command.job_env);
  const ActorSpec& actor = command.assign.actor;
  const std::filesystem::path directory = options_.directory;  // STATE/CLUSTER/agent
  Environment environment = command.job_env;
  for (const auto& [name, value] : command.assign.demand_class.env) environment[name] = value;
  for (const auto& [name, value] : command.assign.accelerator_env) environment[name] = value;
  add_thread_variables(command.assign.allocation, environment);
  environment["MOBULA_ADDRESS"] = options_.head_address;
  environment["MOBULA_STATE_DIR"] = directory.parent_path().parent_path().string();
  environment["MOBULA_SUBMISSION_ID"] = actor.job.hex();
  environment["MOBULA_SUBMISSION_ATTEMPT"] = std::to_string(command.generation + 1);
  CommandSlot slot;
  slot.slot = command.slot;
  slot.generation = command.generation;
  slot.job = actor.job;
  slot.name = std::filesystem::path(actor.entry.argv.front()).filename().string();
  slot.command = {actor.entry.argv, actor.entry.working_dir, actor.entry.needs_working_dir,
                  options_.directory + "/jobs", actor.entry.grace};
  if (const auto files = environment.find(job_files_variable); files != environment.end()) {
    start_with_files(files->second, environment, slot);
  }
  slot.environment = variables_of(environment);
  slots_->start_command(std::move(slot));
}

// Another program of this installation stages the files and then executes the job's program, so
// that the agent does not wait. It runs with the agent's libraries; the job's loader variables
// apply after it.
void WorkerService::start_with_files(std::string hash, Environment& environment,
                                     CommandSlot& slot) const {
  if (options_.job_starter.empty() || hash.size() != 32 || !bits_from_hex(hash)) return;
  Environment later;
  for (const auto& [name, value] : environment)
    later[(name.starts_with("LD_") ? later_prefix : "") + name] = value;
  environment = std::move(later);
  // STATE/CLUSTER
  const std::filesystem::path cluster = std::filesystem::path(options_.directory).parent_path();
  const std::string directory = options_.directory + "/job-files";
  slot.own_dir = directory + "/run/" + ProcessId::random().hex();
  std::vector<std::string> words = options_.job_starter;
  const std::string key = (cluster / (cluster.filename().string() + ".key")).string();
  for (const auto& word :
       {options_.head_address, key, hash, directory + "/cache", slot.own_dir, std::string("--")}) {
    words.push_back(word);
  }
  std::ranges::move(slot.command.argv, std::back_inserter(words));
  slot.command.argv = std::move(words);
}

// A part is small, and recent output is in the page cache.
void WorkerService::carry_out(ReadJobLogRequest& command) {
  step(read_job_log(options_.directory + "/logs", command));
}

void WorkerService::carry_out(LogsRequest& command) { step(slots_->logs().list(command)); }

void WorkerService::carry_out(ReadLogRequest& command) { step(slots_->logs().read(command)); }

void WorkerService::carry_out(UsageRequest& command) {
  const Time now = monotonic_now();
  UsageReply usage = command.node_only
                         ? usage_.node_alone(now)
                         : usage_.sample(now, [this] { return slots_->watched_by_name(); });
  usage.request = command.request;
  usage.wall_ms = wall_clock_ms();
  step(std::move(usage));
}

void WorkerService::carry_out(SpansReply& command) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  command.wall_us = std::chrono::duration_cast<std::chrono::microseconds>(wall).count();
  step(std::move(command));
}

void WorkerService::carry_out(Exit& command) {
  end_ = ServiceEnd{false, command.code, command.why};
}

}  // namespace mobula::internal::worker
