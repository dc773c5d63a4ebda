#include "sim/process_role.h"

#include "protocol/codec/messages.h"
#include "sim/agent_role.h"

namespace mobula::internal::sim {
namespace {

client::ClientOptions options_of(ProcessId process, JobId job) {
  client::ClientOptions options;
  options.process = process;
  options.job = job;
  options.near_tasks = 2;  // small, to exercise compaction although most queues are short
  return options;
}

executor::ExecutorOptions executor_options() {
  executor::ExecutorOptions options;
  options.max_queue = 5;  // small, to fill the queue sometimes
  return options;
}

// The item that an executor has sent.
std::optional<ItemYielded> item_in(const client::Event& event) {
  const auto* received = std::get_if<client::ReceivedFromExecutor>(&event);
  const auto* item = received != nullptr && received->frame.message
                         ? std::get_if<ItemYielded>(&*received->frame.message)
                         : nullptr;
  return item == nullptr ? std::nullopt : std::optional(*item);
}

ProcessId driver_id(int index) {
  return ProcessId(Hash128{0x44525652, static_cast<std::uint64_t>(index) + 1});
}
JobId job_id(int index) { return JobId::of(static_cast<std::uint64_t>(index) + 1); }

}  // namespace

Process::Process(World& world, Node& node, int index)
    : Role(world, "driver" + std::to_string(index), node.index),
      node_(node),
      driver_(index),
      program_(ProgramId::of(static_cast<std::uint64_t>(index) + 1)),
      client_(options_of(driver_id(index), job_id(index))) {}

Process::Process(World& world, Node& node, const worker::StartExecutor& start)
    : Role(world, "ex" + start.assign.process.brief() + "@" + std::to_string(node.index),
           node.index),
      node_(node),
      start_(start),
      program_(start.program),
      client_(options_of(start.assign.process, start.assign.demand_class.job)),
      executor_(std::in_place, executor_options()) {}

void Process::die(const EndCause& cause) {
  if (!alive()) return;
  world().log(*this, [&] { return "ends: " + to_string(cause); });
  end();
  if (!is_driver()) std::erase(node_.executors, this);
  world().checkers().process_ended(*this);
  world().completions().process_ended(*this);
  world().streams().reader_ended(*this);
  for (const auto& [id, wire] : wires_) {
    world().transmit(wire->up, [wire = wire] { wire->executor->wire_over(wire); });
  }
  for (const auto& [id, wire] : callers_) {
    for (const auto& [task, attempt] : std::exchange(wire->in_transit, {}))
      world().checkers().sent_to_the_dead(*this, task, attempt);
    world().transmit(wire->down, [wire = wire] { wire->caller->wire_over(wire); });
  }
  if (!agent_) return;
  agent_->open = false;
  Agent* agent = agent_->agent;
  agent->process_gone(agent_);
  if (is_driver()) return;
  // The exit is reported after all messages that the link still held.
  world().transmit(agent_->up, [agent, slot = slot(), generation = generation(), cause] {
    agent->executor_exited(slot, generation, cause);
  });
}

// ---- the agent ---------------------------------------------------------------------------------

void Process::tell_agent(const ProcessToAgent& message) {
  if (const auto* blocked = std::get_if<ExecutorBlocked>(&message))
    departed_ |= blocked->departing && blocked->on;
  if (const auto* exported = std::get_if<ExportObject>(&message))
    world().streams().exported(exported->object);
  // Sends nothing else before the agent's reply. Lost messages are restated.
  if (!agent_ || !agent_->open || !greeted_) return;
  if (const auto* moved = std::get_if<ReaderMoved>(&message))
    world().streams().reader_reports(*this, *moved);
  agent_->agent->process_said(agent_, message);
}

void Process::on_agent_message(const std::shared_ptr<LocalConnection>& connection,
                               const Bytes& bytes) {
  receive([this, connection, bytes] {
    if (agent_ != connection) return;
    auto message = decode<AgentToProcess>(bytes);
    if (!message) return world().violation("codec", name() + ": " + message.error().text);
    world().trace().fold(world().now(), number(), "agent", bytes);
    world().log(*this, [&] { return "<- agent " + describe(*message); });
    if (const auto* attached_now = std::get_if<DriverAttached>(&*message))
      return attached(*attached_now);
    if (const auto* assignment = std::get_if<AssignExecutor>(&*message))
      return assigned(*assignment);
    if (const auto* moved = std::get_if<ReadersMoved>(&*message))
      world().streams().readers_reach_owner(connection->agent->address().incarnation, *moved);
    if (const auto* retire = std::get_if<UnmapSlabRequest>(&*message))
      return tell_agent(UnmapSlabReply{retire->slab});
    if (std::holds_alternative<AttachRefused>(*message) ||
        std::holds_alternative<LogLines>(*message))
      return;
    if (executor_) {
      if (const auto* end = std::get_if<EndExecutor>(&*message)) {
        step_executor(executor::EndRequested{end->graceful, end->stores, end->orderly});
      }
      if (const auto* over = std::get_if<OverShare>(&*message))
        step_executor(executor::ShareExceeded{over->text});
      if (const auto* dead = std::get_if<PeersDead>(&*message)) {
        for (const ProcessId process : dead->processes) {
          callers_.erase(process);
          step_executor(executor::CallerGone{process});
        }
      }
    }
    if (alive()) step_client(client::ReceivedFromAgent{std::move(*message)});
  });
}

void Process::agent_lost(const std::shared_ptr<LocalConnection>& connection) {
  receive([this, connection] {
    if (agent_ != connection) return;
    agent_.reset();
    greeted_ = false;
    if (!is_driver()) {
      EndCause cause;
      cause.text = "its agent is gone";
      return die(cause);
    }
    world().log(*this, [] { return std::string("lost its agent"); });
    world().streams().reader_ended(*this);
    step_client(client::AgentLost{});
    world().kernel().after(Duration(100ms), [this] { attach(); });
  });
}

void Process::assigned(const AssignExecutor& message) {
  if (std::exchange(was_assigned_, true))
    return world().violation("grants", name() + " was assigned twice");
  greeted_ = true;
  step_client(client::Attached{message.node, {}, {}});
  Endpoint endpoint;
  endpoint.process = message.process;
  endpoint.node = message.node;
  endpoint.address = name();
  endpoint.public_key = "key";
  tell_agent(ExecutorReady{message.process, endpoint});
  step_executor(executor::Assigned{message});
}

// ---- the client core ---------------------------------------------------------------------------

void Process::step_client(client::Event event) {
  client_events_.push_back(std::move(event));
  if (client_steps_) return;
  client_steps_ = true;
  while (!client_events_.empty() && alive() && !world().over()) {
    auto events = world().hooks().client.taken(std::move(client_events_.front()));
    client_events_.pop_front();
    for (auto& each : events) {
      std::vector<client::Command> commands;
      if (const auto* ended = std::get_if<client::UnsubscribeObject>(&each))
        world().completions().unsubscribed(*this, *ended);
      const auto item = item_in(each);
      if (std::holds_alternative<client::AwaitSubmitted>(each))
        world().streams().caller_exits(*this);
      client_.step(world().now(), std::move(each), commands);
      for (auto& echo : world().hooks().client.leave(commands))
        client_events_.push_back(std::move(echo));
      for (auto& command : commands) {
        if (alive()) carry_out(command);
      }
      if (alive()) world().completions().stepped(*this, commands);
      if (item && alive()) world().streams().received(*this, *item);
    }
  }
  client_steps_ = false;
  if (!alive()) return;
  if (executor_) check_fetches();
  poll_threads();
  arm();
}

void Process::carry_out(client::Command& command) {
  if (auto* agent = std::get_if<client::SendToAgent>(&command)) {
    tell_agent(agent->message);
  } else if (auto* stream = std::get_if<client::SendToExecutor>(&command)) {
    tell_executor(*stream);
  } else if (auto* close = std::get_if<client::CloseStream>(&command)) {
    world().reports().stream_closed(*this, close->executor);
    const auto at = wires_.find(close->executor);
    if (at == wires_.end()) return;
    const auto wire = at->second;
    wires_.erase(at);
    world().transmit(wire->up, [wire = wire] { wire->executor->wire_over(wire); });
  } else if (auto* space = std::get_if<client::SpaceReserved>(&command)) {
    if (space->copy_of.slab != 0 && !space->failure) {
      // The copy is from an agent that has died. Its processes still map its memory.
      const auto& source = node_.memory[{space->copy_of.slab, space->copy_of.offset}];
      if (source.object != space->object) {
        client_events_.emplace_back(client::ValueUnreadable{space->object});
        return;
      }
      write(space->location, space->object, Payload(source.bytes));
      client_events_.emplace_back(
          client::ValueWritten{space->object, space->is_error, std::move(space->contained)});
      return;
    }
    if (space->payload.empty() || space->failure) {
      reserved_.insert_or_assign(space->object, std::move(*space));
      return;
    }
    write(space->location, space->object, space->payload);
    client_events_.emplace_back(
        client::ValueWritten{space->object, space->is_error, std::move(space->contained)});
  } else if (auto* stored = std::get_if<client::ValueSealed>(&command)) {
    sealed_.insert(stored->object);
  } else if (auto* answer = std::get_if<client::HeadAnswered>(&command)) {
    head_answered(answer->answer);
  } else if (const auto* unneeded = std::get_if<client::TensorUnneeded>(&command)) {
    world().checkers().tensor_freed(*this, unneeded->object);
    std::erase(here_, unneeded->object);
    tell_held();
  } else if (std::holds_alternative<client::SubmittedDone>(command)) {
    step_executor(executor::SubmittedDone{});
  } else if (const auto* report = std::get_if<client::ObjectReported>(&command)) {
    world().completions().reported(*this, *report);
    if (!report->held) return;
    client_events_.emplace_back(client::UnwantObject{report->object});
    client_events_.emplace_back(client::ReleaseRef{report->object});
  } else if (auto* given = std::get_if<client::HandedOver>(&command)) {
    handed_over_ = std::move(*given);
  }
}

std::optional<Time> Process::deadline() const {
  auto due = client_.next_deadline();
  if (executor_) {
    const auto other = executor_->next_deadline();
    if (other && (!due || *other < *due)) due = other;
  }
  return due;
}

void Process::tick() {
  step_client(client::Tick{});
  if (executor_ && alive()) step_executor(executor::Tick{});
}

// ---- the executor core -------------------------------------------------------------------------

void Process::step_executor(executor::Event event) {
  executor_events_.push_back(std::move(event));
  if (executor_steps_) return;
  executor_steps_ = true;
  while (!executor_events_.empty() && alive() && !world().over()) {
    auto events = world().hooks().executor.taken(std::move(executor_events_.front()));
    executor_events_.pop_front();
    for (auto& each : events) {
      std::vector<executor::Command> commands;
      executor_->step(world().now(), std::move(each), commands);
      for (auto& echo : world().hooks().executor.leave(commands))
        executor_events_.push_back(std::move(echo));
      for (auto& command : commands) {
        if (alive()) carry_out(command);
      }
    }
  }
  executor_steps_ = false;
  if (alive()) arm();
}

void Process::carry_out(executor::Command& command) {
  using namespace executor;
  if (auto* frame = std::get_if<SendToCaller>(&command)) {
    const auto at = callers_.find(frame->caller);
    if (at == callers_.end()) return;
    world().checkers().executor_replied(*this, frame->caller, frame->frame);
    world().log(*this,
                [&] { return "-> " + at->second->caller->name() + " " + describe(frame->frame); });
    world().transmit(at->second->down, [wire = at->second, bytes = encode(frame->frame)] {
      wire->caller->on_executor_message(wire, bytes);
    });
  } else if (auto* agent = std::get_if<executor::SendToAgent>(&command)) {
    tell_agent(agent->message);
  } else if (auto* fetch = std::get_if<FetchArguments>(&command)) {
    fetch_arguments(*fetch);
  } else if (auto* run = std::get_if<RunCall>(&command)) {
    start_call(*run);
  } else if (auto* drop = std::get_if<DropCall>(&command)) {
    drop_fetched(drop->token);
  } else if (auto* cancel = std::get_if<CancelRunning>(&command)) {
    const auto at = threads_.find(cancel->token);
    if (at == threads_.end()) return;
    at->second->cancel();
    const TaskId task = at->second->task();
    if (cancel->recursive) step_client(client::CancelChildren{task});
    poll_threads();
  } else if (std::holds_alternative<WindowMoved>(command)) {
    poll_threads();
  } else if (auto* pins = std::get_if<ReleasePins>(&command)) {
    step_client(client::UnpinRefs{std::move(pins->refs), pins->unheld});
  } else if (std::holds_alternative<Evacuate>(command)) {
    if (here_.empty()) {
      stored_ = true;
      return step_executor(Evacuated{});
    }
    world().kernel().after(world().user_chance().between(Duration(100us), Duration(30ms)), [this] {
      receive([this] {
        stored_ = true;
        step_executor(Evacuated{});
      });
    });
  } else if (std::holds_alternative<DestroyActor>(command)) {
    world().kernel().after(Duration(10us),
                           [this] { receive([this] { step_executor(ActorDestroyed{}); }); });
  } else if (std::holds_alternative<ReleaseName>(command)) {
    if (name_release_ == 0) name_release_ = next_request();
    step_client(client::QueryHead{
        FindActor{name_release_, "", assignment().name_space, assignment().actor.actor}});
  } else if (std::holds_alternative<AwaitSubmitted>(command)) {
    exits_ = true;
    const auto work = client_.unfinished();
    if (work.calls > 0) step_executor(SubmittedPending{work.calls, work.example});
    step_client(client::AwaitSubmitted{});
  } else if (std::holds_alternative<Leave>(command)) {
    if (!stored_) world().checkers().leaves_with(*this, here_);
    // A leave without exit handlers is a cut. Only a job's end, a drain, or a fault cuts off an
    // executor that awaits its submitted calls.
    const auto& leave = std::get<Leave>(command);
    const bool cut = exits_ && !leave.exit_handlers;
    if (leave.kind != EndKind::killed || cut) world().checkers().exits_as_planned(*this);
    if (hangs_) return world().log(*this, [] { return std::string("hangs instead of ending"); });
    world().kernel().after(Duration(10us), [this] {
      EndCause cause;
      cause.pid = pid();
      die(cause);
    });
  }
}

void Process::fetch_arguments(const executor::FetchArguments& command) {
  Fetch& fetch = fetches_[command.token];
  for (const auto& argument : command.refs) fetch.objects.push_back(argument.ref.object);
  for (const auto& argument : command.refs) {
    step_client(client::AdoptRef{argument.ref});
    step_client(client::WantObject{argument.ref.object, true});
  }
  fetches_[command.token].tensors = command.tensors;
  if (!command.tensors.empty()) step_client(client::BorrowRefs{command.tensors});
  check_fetches();
}

void Process::check_fetches() {
  std::vector<executor::ArgumentsFetched> ready;
  for (auto& [token, fetch] : fetches_) {
    if (fetch.reported) continue;
    bool all = true;
    std::optional<Failure> failure;
    std::vector<ObjectId> unread;
    for (const ObjectId object : fetch.objects) {
      all = all && client_.settled(object);
      const auto* row = client_.object(object);
      const auto why = row != nullptr ? client::why_unread(*row) : std::nullopt;
      if (!why) continue;
      if (why->code != ErrorCode::resource_exhausted) unread.push_back(object);
      if (!failure) failure = why;
    }
    if (!all) continue;
    fetch.reported = true;
    executor::ArgumentsFetched news{token, failure, lost_elements(fetch), std::move(unread)};
    if (!news.lost.empty() && !news.failure)
      news.failure = Failure{ErrorCode::not_found, "elements are lost"};
    if (news.lost.empty()) with_elements_.insert(token);
    ready.push_back(std::move(news));
  }
  for (auto& news : ready) step_executor(std::move(news));
}

// Elements in a killed process are lost.
std::vector<ObjectId> Process::lost_elements(const Fetch& fetch) {
  RefRecords refs = fetch.tensors;
  for (const ObjectId object : fetch.objects) {
    const auto* row = client_.object(object);
    if (row != nullptr)
      refs.insert(refs.end(), row->value->contained.begin(), row->value->contained.end());
  }
  std::vector<ObjectId> lost;
  for (const auto& ref : refs) {
    const Process* holder = ref.tensor.is_empty() ? nullptr : world().process_of(ref.owner);
    if (holder != nullptr && !holder->alive() && !holder->stored_) lost.push_back(ref.object);
  }
  return lost;
}

void Process::drop_fetched(std::uint64_t token) {
  with_elements_.erase(token);
  const auto at = fetches_.find(token);
  if (at == fetches_.end()) return;
  const auto objects = std::move(at->second.objects);
  const auto tensors = std::move(at->second.tensors);
  fetches_.erase(at);
  PooledVector<ObjectId> lent;
  for (const auto& tensor : tensors) {
    step_client(client::ReleaseRef{tensor.object});
    lent.push_back(tensor.object);
  }
  for (const ObjectId object : objects) {
    step_client(client::UnwantObject{object});
    step_client(client::ReleaseRef{object});
  }
  if (!lent.empty()) step_client(client::EndBorrow{std::move(lent)});
}

RefRecord Process::new_tensor() {
  RefRecord ref{ObjectId::derived(id(), "tensor", tensors_++), client_.node(), id(), {}};
  ref.tensor = TensorRecord{1 << 20, true, {.direct = true}, {}};
  here_.push_back(ref.object);
  return ref;
}

void Process::tell_held() {
  ResidentResults held{
      static_cast<std::int64_t>(here_.size()), static_cast<std::int64_t>(here_.size()) << 20, {}};
  if (!here_.empty()) held.oldest = here_.front();
  if (executor_ && std::exchange(reported_held_, held) != held)
    step_executor(executor::ResultsHeld{held});
}

std::int64_t Process::memory_mib(Time now) const {
  std::int64_t sum = 0;
  for (const auto& [token, thread] : threads_) sum += thread->memory_mib(now);
  return sum;
}

// ---- threads -----------------------------------------------------------------------------------

void Process::start_call(const executor::RunCall& run) {
  world().checkers().call_started(*this, run);
  world().checkers().elements_there(*this, run, with_elements_.contains(run.token));
  const auto& plan = world().plan().plans.at(run.call.form->function.offset);
  tell_agent(RunningNow{run.call.form->name, run.call.task, run.call.may_run_again});
  hangs_ |= plan.hangs;
  threads_.insert_or_assign(run.token, std::make_unique<Thread>(*this, run, plan));
  resume_later(run.token, Duration(5us));
}

void Process::call_finished(const executor::RunCall& run, executor::CallFinished finished) {
  world().checkers().call_ended(*this, run);
  tell_held();
  step_executor(std::move(finished));
  const auto& plan = world().plan().plans.at(run.call.form->function.offset);
  if (!plan.parts && !(plan.parts_once && run.call.attempt == 0)) return;
  world().kernel().after(world().user_chance().between(Duration(0), Duration(60us)), [this] {
    EndCause cause{EndKind::signalled, 0, 11, pid(), "it crashed after its answer", {}};
    die(cause);
  });
}

void Process::resume_later(std::uint64_t thread, Duration after) {
  world().kernel().after(after, [this, thread] { receive([this, thread] { resume(thread); }); });
}

void Process::resume(std::uint64_t key) {
  const auto at = threads_.find(key);
  if (at == threads_.end()) return;
  world().trace().fold(world().now(), number(), "thread", key);
  Thread& thread = *at->second;
  thread.wake();
  if (!alive()) return;
  if (thread.done()) {
    threads_.erase(key);
    idle_since_ = world().now();
  }
  poll_threads();
  if (is_driver()) end_when_done();
  if (alive()) arm();
}

void Process::poll_threads() {
  for (auto& [key, thread] : threads_) {
    if (thread->can_go_on())
      resume_later(key, world().user_chance().between(Duration(1us), Duration(60us)));
  }
}

std::size_t Process::deferred_calls() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(threads_, [](const auto& each) { return each.second->is_deferred(); }));
}

bool Process::has_work() const {
  return !finished() && (!items_started_ || !threads_.empty() || client_.sizes().tasks > 0);
}

std::string Process::work_left() const {
  std::string text;
  for (const auto& [key, thread] : threads_) {
    text += "\n  " + name() + ": thread " + std::to_string(key) + " " + thread->plan_name() +
            " waits for " + thread->waits_for();
  }
  if (is_driver() && threads_.empty() && !client_.empty())
    text += "\n  " + name() + ": " + core_left();
  return text;
}

// Counts the rows of the client's core.
std::string Process::core_left() const {
  const auto sizes = client_.sizes();
  return "its core keeps objects " + std::to_string(sizes.objects) + ", tasks " +
         std::to_string(sizes.tasks) + ", streams " + std::to_string(sizes.streams) + ", slots " +
         std::to_string(sizes.slots) + ", classes " + std::to_string(sizes.classes) + ", actors " +
         std::to_string(sizes.actors) + ", writes " + std::to_string(sizes.writes);
}

bool Process::attached_to(const Agent& agent) const {
  return alive() && agent_ && agent_->open && agent_->agent == &agent && greeted_;
}

// ---- values ------------------------------------------------------------------------------------

void Process::write(const SlabRange& location, ObjectId object, Payload bytes) {
  node_.memory[{location.slab, location.offset}] = {object, std::move(bytes)};
}

Reading Process::read(ObjectId object) {
  Reading reading;
  const auto fail = [&](ErrorKind kind, std::string text) {
    reading.error.emplace();
    reading.error->kind = kind;
    reading.error->text = std::move(text);
    return reading;
  };
  const auto* row = client_.object(object);
  if (row == nullptr) return fail(ErrorKind::object_lost, "this process holds no such object");
  Payload bytes = row->value->bytes;
  bool is_error = row->value->is_error;
  if (!(row->ready && !(row->value->in_store && row->value->bytes.empty()))) {
    if (row->reading->failure) {
      const bool full = row->reading->failure->code == ErrorCode::resource_exhausted;
      return fail(full ? ErrorKind::object_store_full : ErrorKind::object_lost,
                  row->reading->failure->text);
    }
    if (!row->readable) return fail(ErrorKind::connection, "not readable");
    const auto& content =
        node_.memory[{row->reading->location.slab, row->reading->location.offset}];
    if (content.object != object) {
      world().violation("objects", name() + " reads object " + object.brief() + " where " +
                                       content.object.brief() + " lies");
      return fail(ErrorKind::object_lost, "overwritten");
    }
    bytes = content.bytes;
  }
  reading.contained = row->value->contained;
  if (const auto link = stream_link(bytes.bytes())) {
    reading.link = link;
    reading.number = 1;
    return reading;
  }
  if (is_error) {
    auto error = decode<ErrorRecord>(bytes.bytes());
    reading.error = error ? std::move(*error) : ErrorRecord{};
    return reading;
  }
  const auto number = decode<std::uint64_t>(bytes.bytes());
  if (!number)
    world().violation("objects",
                      "object " + object.brief() + " holds no number: " + number.error().text);
  reading.number = number ? *number : 0;
  return reading;
}

DemandClass Process::demand_class(const Plan& plan) const {
  DemandClass demand;
  demand.id = ClassId::derived(job(), plan.shape, static_cast<std::uint64_t>(plan.max_calls));
  demand.job = job();
  demand.request = request_of(plan.shape);
  demand.program = program_;
  demand.max_calls = plan.max_calls;
  return demand;
}

}  // namespace mobula::internal::sim
