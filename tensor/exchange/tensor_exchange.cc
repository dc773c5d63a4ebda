#include "tensor/exchange/tensor_exchange.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace mobula::internal::exchange {
namespace {

using transfer::PullEnded;
using transfer::RegionsHere;
using transfer::RegionsInStore;

// Result of an empty tensor: nothing is transferred, and no transport sees it.
Elements nothing_on(int device) { return {.bytes = {}, .owner = nullptr, .device = device}; }

// The owner of the value must be the process that holds the elements.
bool is_sound(const RefRecord& ref) {
  return !ref.owner.empty() && ref.tensor->holder->process == ref.owner;
}

// Disables the progress timeout of the core: transports detect a silent peer and end its transfers.
transfer::RegionOptions with_long_timeout(transfer::RegionOptions options) {
  options.progress_timeout = std::chrono::hours(1);
  return options;
}

// Result of a request that leads to no pull.
PullResult result_without_pull(std::uint64_t request, const RefRecord& ref,
                               std::variant<Elements, InStore, Failure> outcome) {
  return {.request = request,
          .object = ref.object,
          .outcome = std::move(outcome),
          .path = {},
          .holder = ref.owner,
          .refusals = {},
          .failed_tries = {},
          .fell_back = false};
}

transfer::TensorRequest request_of(const RefRecord& ref, std::vector<DirectPath> paths,
                                   int device) {
  return {.object = ref.object,
          .size_bytes = static_cast<std::uint64_t>(ref.tensor->size_bytes),
          .holders = {ref.owner},
          .paths = std::move(paths),
          .device_ordinal = static_cast<std::uint32_t>(std::max(device, 0))};
}

}  // namespace

std::string TensorExchange::text_of(DirectPath path, std::string_view why) {
  return std::string(to_string(path)) + ": " + std::string(why);
}

TensorExchange::TensorExchange(ExchangeOptions options, Callbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      core_(options_.self.process, with_long_timeout(options_.regions)),
      withdrawals_(std::make_shared<ReleaseNotifier>([this](ObjectId object, std::uint64_t copy) {
        post([this, object, copy] { withdraw(object, copy); });
      })) {}

Result<std::unique_ptr<TensorExchange>> TensorExchange::start(ExchangeOptions options,
                                                              Callbacks callbacks) {
  std::unique_ptr<TensorExchange> self(
      new TensorExchange(std::move(options), std::move(callbacks)));
  SocketOptions sockets;
  sockets.keys = self->options_.keys;
  sockets.host_bind = self->options_.host_bind;
  sockets.handshake_timeout = self->options_.handshake_timeout;
  auto opened = ProcessSockets::open(sockets);
  if (!opened) return opened.error();
  self->sockets_ = std::move(*opened);
  Result<void> made;
  auto ran = self->sockets_->thread().run([&] { made = self->open(); });
  if (ran.ok() && made.ok()) return self;
  return ran.ok() ? made.error() : ran.error();
}

Result<void> TensorExchange::open() {
  EventLoop& loop = sockets_->loop();
  timer_ = std::make_unique<Timer>(
      loop, [this] { step([&](Time now, auto& out) { core_.tick(now, out); }); });
  alarm_ = std::make_unique<Timer>(loop, callbacks_.woken);
  reconnect_timer_ = std::make_unique<Timer>(loop, [this] { reconnect_due(); });
  PathOptions paths{.process = options_.self.process,
                    .socket = options_.sockets.empty() ? std::string() : options_.sockets + ".s",
                    .host_bind = options_.host_bind,
                    .may_choose = options_.may_choose,
                    .fabric = options_.fabric,
                    .own_host = options_.own_host,
                    .plugins = options_.plugins,
                    .gpus = options_.gpus,
                    .lost = options_.lost};
  paths_ = std::make_unique<TensorPaths>(loop, std::move(paths));
  arena_ = paths_->arena();
  LinkOptions links{.self = options_.self,
                    .job = options_.job,
                    .ticket = options_.ticket,
                    .revoked_keys = options_.revoked_keys,
                    .head_signing_key = options_.head_signing_key,
                    .socket = options_.sockets.empty() ? std::string() : options_.sockets + ".t"};
  TransportCapabilities capabilities = paths_->reach();
  capabilities.chunk_bytes = options_.regions.chunk_bytes;
  capabilities.supports_close = true;
  auto made = TensorConnections::open(
      *sockets_, std::move(links), std::move(capabilities),
      {.met = [this](ProcessId peer, const TransportCapabilities& reach) { met(peer, reach); },
       .on_message =
           [this](ProcessId peer, const RegionMessage& message) {
             take_up();
             // reported dead by the preceding `take_up`
             if (!paths_->knows(peer)) return;
             learn_locations(message);
             step([&](Time now, auto& out) { core_.on(now, peer, message, out); });
           },
       .gone = [this](ProcessId peer, const Failure& why,
                      bool may_return) { gone(peer, why, may_return); },
       .parted = [this](ProcessId peer) { paths_->parted(peer); }});
  if (!made) return made.error();
  links_ = std::move(*made);
  self_ = links_->self();
  return {};
}

TensorExchange::~TensorExchange() {
  withdrawals_->close();
  if (!sockets_) return;
  (void)sockets_->thread().run([this] {
    links_.reset();
    paths_.reset();
    timer_.reset();
    alarm_.reset();
    reconnect_timer_.reset();
  });
  sockets_.reset();
}

void TensorExchange::post(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    inbox_.push_back(std::move(task));
    if (std::exchange(notified_, true)) return;
  }
  if (sockets_->loop().post([this] { take_up(); })) return;
  const MutexLock lock(mutex_);
  notified_ = false;  // mailbox full: the next `post` tries again
}

// Applies requests and registrations before any message of a peer: the peer acts on earlier
// messages of this process.
void TensorExchange::take_up() {
  std::vector<std::function<void()>> tasks;
  std::map<ObjectId, RegisteredTensor> fresh;
  {
    const MutexLock lock(mutex_);
    tasks.swap(inbox_);
    fresh.swap(fresh_);
    notified_ = false;
  }
  for (auto& each : fresh) {
    const auto at = registered_.insert_or_assign(each.first, std::move(each.second)).first;
    register_in_core(at->first, at->second);
  }
  for (const auto& task : tasks) task();
}

// ---- core ---------------------------------------------------------------------------------------

void TensorExchange::carry_out_all() {
  if (carrying_out_) return;
  carrying_out_ = true;
  for (std::size_t next = 0; next < commands_.size(); ++next) {
    auto command = std::move(commands_[next]);  // execution can append commands
    carry_out(command);
  }
  commands_.clear();
  carrying_out_ = false;
  if (const auto due = core_.next_deadline()) {
    timer_->arm(*due);
  } else {
    timer_->disarm();
  }
}

void TensorExchange::register_in_core(ObjectId object, const RegisteredTensor& published) {
  const SourceRegion& elements = published.elements;
  std::uint32_t device_ordinal = 0;
  if (!elements.location.on_host() && options_.gpus)
    device_ordinal = options_.gpus->ordinal_of(to_string(elements.location.device)).value_or(0);
  step([&](Time now, auto& out) {
    core_.register_tensor(now, object, elements.bytes.size(), device_ordinal, out);
  });
}

void TensorExchange::carry_out(transfer::RegionCommand& command) {
  std::visit([this](auto& each) { carry_out(each); }, command);
}

void TensorExchange::carry_out(const transfer::SendRegions& command) {
  links_->send(command.to, with_locations(command.message));
}

void TensorExchange::wake(Duration after) {
  post([this, after] {
    if (alarm_ && !alarm_->armed()) alarm_->arm(monotonic_now() + after);
  });
}

// ---- pull ---------------------------------------------------------------------------------------

void TensorExchange::pull(std::uint64_t number, RefRecords tensors, bool arguments,
                          std::optional<int> device) {
  progress_.pull(monotonic_now(), number, tensors);
  post([this, number, tensors = std::move(tensors), arguments, device]() mutable {
    if (!paths_) return;
    PullRequest& request = requests_[number];
    request.due = tensors.size();
    request.tensors = std::move(tensors);
    request.arguments = arguments;
    request.device = device;
    waiting_.push_back(number);
    // Also for known peers: a connection from a peer does not serve as a connection to it.
    for (const RefRecord& each : request.tensors) {
      if (!is_sound(each)) continue;
      unreachable_.erase(each.owner);
      links_->meet(*each.tensor->holder);
    }
    begin_requests();
  });
}

void TensorExchange::cancel(std::uint64_t number) {
  progress_.over(number);
  post([this, number] {
    const auto at = requests_.find(number);
    if (at == requests_.end()) return;
    const auto pulls = std::move(at->second.pulls);
    requests_.erase(at);
    std::erase(waiting_, number);
    for (const auto& each : pulls) {
      if (!pulls_.contains(each.first)) continue;  // a completed chunk
      step([&](Time now, auto& out) { core_.cancel(now, each.first, out); });
    }
  });
}

void TensorExchange::dead(std::vector<ProcessId> processes) {
  post([this, processes = std::move(processes)] {
    if (!links_) return;
    for (const ProcessId each : processes) {
      links_->dead(each);
      // Between two attempts to connect, no connection reports the exit.
      if (reconnects_.waits_for(each))
        gone(each, failure(ErrorCode::not_found, "the process has exited"), false);
    }
  });
}

void TensorExchange::trust(std::string ticket, std::vector<std::string> revoked_keys) {
  post([this, ticket = std::move(ticket), revoked_keys = std::move(revoked_keys)] {
    if (links_) links_->trust(ticket, revoked_keys);
  });
}

void TensorExchange::met(ProcessId peer, const TransportCapabilities& reach) {
  paths_->met(peer, reach);
  if (reach.supports_close) core_.supports_close(peer);
  reconnects_.forget(peer);
  reached_or_not(peer);
  answer_lookups(peer, true);
  begin_requests();
}

void TensorExchange::gone(ProcessId peer, const Failure& why, bool may_return) {
  paths_->gone(peer);
  const bool returns =
      may_return && needed_from(peer) != nullptr && reconnects_.ended(peer, monotonic_now());
  if (!returns) reconnects_.forget(peer);
  if (!returns && !waiting_.empty()) unreachable_[peer] = why.text;
  reached_or_not(peer);
  step([&](Time now, auto& out) { core_.peer_gone(now, peer, may_return, out); });
  if (!returns) answer_lookups(peer, false);
  arm_reconnects();
  begin_requests();
}

// Connects again at once if anything needs the holder: pulls in progress, and requests that still
// wait for other holders.
void TensorExchange::carry_out(const transfer::Part& command) {
  paths_->close_paths(command.holder);
  links_->part(command.holder);
  for (const auto& [number, request] : requests_) {
    const bool waits = std::ranges::find(waiting_, number) != waiting_.end();
    if (!waits && !command.again) continue;
    for (const RefRecord& each : request.tensors) {
      if (is_sound(each) && each.owner == command.holder) return links_->meet(*each.tensor->holder);
    }
  }
  if (const auto replica_holder = where_.find(command.holder);
      replica_holder != where_.end() && command.again)
    links_->meet(replica_holder->second, true);
}

// Starts the requests whose holders are all connected or known to be unreachable.
void TensorExchange::begin_requests() {
  std::vector<std::uint64_t> ready;
  std::erase_if(waiting_, [&](std::uint64_t number) {
    const bool all = std::ranges::all_of(requests_.at(number).tensors, [&](const RefRecord& each) {
      return !is_sound(each) || paths_->knows(each.owner) || unreachable_.contains(each.owner);
    });
    if (all) ready.push_back(number);
    return all;
  });
  for (const std::uint64_t number : ready) {
    if (const auto at = requests_.find(number); at != requests_.end()) begin(number, at->second);
  }
  if (waiting_.empty()) unreachable_.clear();
}

void TensorExchange::open_plugin_of(std::optional<DirectPath> path) {
  if (path && is_of_plugin(*path) && paths_->open_installed(*path))
    links_->announce(paths_->reach());
}

void TensorExchange::begin(std::uint64_t number, PullRequest& request) {
  std::vector<PullResult> at_once;
  std::vector<transfer::TensorRequest> together;
  std::vector<Wanted> wanted;
  std::vector<std::map<std::uint64_t, Gathering>::node_type> never_began;
  for (const RefRecord& each : request.tensors) {
    PullResult none = result_without_pull(number, each, InStore{});
    if (!is_sound(each)) {
      none.outcome = failure(ErrorCode::corrupt, "the ref names another process than its holder");
      at_once.push_back(std::move(none));
      continue;
    }
    if (!paths_->knows(each.owner)) {
      none.refusals.push_back("its holder cannot be reached: " + unreachable_[each.owner]);
      at_once.push_back(std::move(none));
      continue;
    }
    open_plugin_of(each.tensor->preference.named);
    const bool has_choice = !each.tensor->device.empty() && request.device;  // not on the host
    const int device = has_choice ? *request.device : paths_->landing(*each.tensor);
    const auto choice = paths_->choose(each.owner, *each.tensor, device);
    if (choice.paths.empty()) {
      for (const auto& refusal : choice.refusals)
        none.refusals.push_back(text_of(refusal.path, refusal.why));
      none.outcome = failure(ErrorCode::unavailable, "no path that it may take is available");
      at_once.push_back(std::move(none));
      continue;
    }
    transfer::TensorRequest one = request_of(each, choice.paths, device);
    Wanted whole{.ref = each, .device = device, .refusals = choice.refusals};
    if (is_chunked(whole, choice.paths) && add_parts(number, whole, one, together, wanted))
      continue;
    together.push_back(std::move(one));
    wanted.push_back(std::move(whole));
  }
  if (!together.empty()) {
    step([&](Time now, auto& out) {
      const auto pulls = core_.pull(now, std::move(together), request.arguments, out);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (!pulls && wanted[i].gathering != 0) {
          const auto gathering = gatherings_.find(wanted[i].gathering);
          if (gathering == gatherings_.end()) continue;
          gathering->second.failed = pulls.error();
          never_began.push_back(gatherings_.extract(gathering));
          continue;
        }
        if (!pulls) {
          at_once.push_back(result_without_pull(number, wanted[i].ref, pulls.error()));
          continue;
        }
        request.pulls.emplace((*pulls)[i], wanted[i]);
        pulls_[(*pulls)[i]] = {number, wanted[i].gathering};
        if (wanted[i].gathering != 0)
          gatherings_.at(wanted[i].gathering).parts[(*pulls)[i]] = wanted[i].part;
      }
    });
  }
  for (const auto& each : never_began) gathered(each.key(), each.mapped());
  for (auto& each : at_once) arrive(std::move(each));
}

void TensorExchange::arrive(PullResult arrival) {
  const auto at = requests_.find(arrival.request);
  if (at == requests_.end()) return;
  if (--at->second.due == 0) requests_.erase(at);
  progress_.over(arrival.request, arrival.object);
  callbacks_.completed(std::move(arrival));
}

void TensorExchange::carry_out(const transfer::PullChunk& command) {
  const auto operation = command.operation;
  const auto report = [this, operation, pull = command.pull](Result<Elements> elements) {
    operations_.erase(operation);
    std::optional<Failure> failed;
    const auto location = pulls_.find(pull);
    const auto gathering =
        location == pulls_.end() ? gatherings_.end() : gatherings_.find(location->second.gathering);
    if (elements && gathering != gatherings_.end()) {
      gathering->second.encrypted[pull] = elements->encrypted;
    } else if (elements) {
      fetched_[pull] = std::move(*elements);
    } else {
      failed = elements.error();
    }
    step([&](Time now, auto& out) { core_.ended(now, operation, failed, out); });
  };
  const auto request = requests_.find(pulls_.at(command.pull).request);
  Result<TransferId> transfer =
      failure(ErrorCode::cancelled, "no request needs the tensor any more");
  if (request != requests_.end()) {
    const Wanted& wanted = request->second.pulls.at(command.pull);
    const TensorRecord& record = *wanted.ref.tensor;
    progress_.moves(monotonic_now(), request->first, wanted.ref.object, command.path);
    if (record.size_bytes == 0) return report(nothing_on(wanted.device));
    const bool stays =
        wanted.device == on_host
            ? record.device.empty()
            : paths_->reach().devices.at(static_cast<std::size_t>(wanted.device)) == record.device;
    TensorPaths::PullChunk fetch{.path = command.path,
                                 .holder = command.holder,
                                 .peer_ordinal = command.peer_ordinal,
                                 .ticket = command.ticket,
                                 .size_bytes = static_cast<std::uint64_t>(record.size_bytes),
                                 .in_place = record.in_shared_memory && stays,
                                 .of_device = !record.device.empty(),
                                 .device = wanted.device};
    if (wanted.gathering != 0) {
      const auto target = memory_of(wanted);
      if (!target) return report(target.error());
      fetch.in_place = false;
      fetch.size_bytes = target->size();
      fetch.target = *target;
      fetch.target_owner = gatherings_.at(wanted.gathering).memory;
    }
    transfer = paths_->fetch(fetch, report);
  }
  if (!transfer) return report(transfer.error());
  operations_[operation] = {command.path, *transfer, command.pull};
}

void TensorExchange::carry_out(const transfer::Cancel& command) {
  const auto at = operations_.find(command.operation);
  if (at == operations_.end()) return;
  if (at->second.pair) return paths_->break_pair(*at->second.pair, at->second.transfer);
  paths_->cancel(at->second.transfer);
}

// A reachable holder is the authority on its elements. Elements of an unreachable holder are in the
// store or lost.
void TensorExchange::carry_out(const transfer::ResolveHolder& command) {
  if (!command.disconnected.empty() && !paths_->knows(command.disconnected) &&
      reconnects_.waits_for(command.disconnected)) {
    lookups_[command.disconnected].insert(command.object);
    return;
  }
  if (!command.disconnected.empty() && paths_->knows(command.disconnected)) {
    return step([&](Time now, auto& out) {
      core_.located(now, command.object, {.holders = {command.disconnected}}, out);
    });
  }
  bool reachable = false;
  for (const auto& [number, request] : requests_) {
    for (const auto& [pull, ref] : request.pulls) {
      if (ref.ref.object == command.object) reachable = reachable || paths_->knows(ref.ref.owner);
    }
  }
  step([&](Time now, auto& out) {
    core_.located(now, command.object, {.holders = {}, .in_store = !reachable, .lost = reachable},
                  out);
  });
}

void TensorExchange::report_rejections(const Wanted& wanted, PullResult& arrival) {
  const RefRecord& ref = wanted.ref;
  const auto named = ref.tensor->preference.named;
  arrival.fell_back =
      !arrival.failed_tries.empty() || (named && arrival.path && *named != *arrival.path);
  for (const auto& each : wanted.refusals) {
    // A path for other kinds of memory is not worth a report.
    const bool is_of_devices = each.path == DirectPath::cuda_ipc || each.path == DirectPath::nccl;
    const bool fits = !is_of_devices || (!ref.tensor->device.empty() && wanted.device != on_host);
    const bool better = fits && (!arrival.path || transfer::is_better(each.path, *arrival.path));
    if (better || named == each.path) arrival.refusals.push_back(text_of(each.path, each.why));
  }
}

void TensorExchange::carry_out(PullEnded& command) {
  const auto at = pulls_.find(command.pull);
  const std::uint64_t number = at->second.request;
  const std::uint64_t gathering = at->second.gathering;
  pulls_.erase(at);
  arriving_.erase(command.pull);
  auto elements = fetched_.extract(command.pull);
  if (gathering != 0) return chunk_ended(command, gathering);
  const auto request = requests_.find(number);
  if (request == requests_.end()) return;  // cancelled
  const Wanted wanted = request->second.pulls.at(command.pull);
  const RefRecord& ref = wanted.ref;
  PullResult arrival{.request = number,
                     .object = ref.object,
                     .outcome = InStore{},
                     .path = {},
                     .holder = ref.owner,
                     .refusals = {},
                     .failed_tries = {},
                     .fell_back = false,
                     .queued = command.queued,
                     .moved = command.moved};
  for (const auto& attempt : command.attempts) {
    if (attempt.refusal.empty()) {
      arrival.path = attempt.path;
    } else {
      arrival.refusals.push_back(text_of(attempt.path, attempt.refusal));
      arrival.failed_tries.push_back(attempt.path);
    }
  }
  report_rejections(wanted, arrival);
  const bool here = std::holds_alternative<RegionsHere>(command.outcome);
  if (here && !ref.tensor->device.empty() && !request->second.device && wanted.device == on_host) {
    arrival.refusals.push_back("cuda: it was made on " + ref.tensor->device +
                               ", and this process has no GPU to put it on: it is in host memory");
  }
  if (here && !elements.empty()) {
    arrival.outcome = std::move(elements.mapped());
  } else if (here && ref.tensor->size_bytes == 0) {
    arrival.outcome = nothing_on(wanted.device);
  } else if (const auto* failed = std::get_if<Failure>(&command.outcome)) {
    arrival.outcome = *failed;
  }
  arrive(std::move(arrival));
}

}  // namespace mobula::internal::exchange
