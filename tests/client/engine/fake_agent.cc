#include "client/engine/fake_agent.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/check.h"
#include "client/engine/ring_records.h"
#include "protocol/codec/codec.h"
#include "store/slab.h"

namespace mobula::internal::client {

FakeAgent::FakeAgent(std::uint64_t incarnation, Way way, Fd spin_page)
    : spin_page_(std::move(spin_page)), slabs_(incarnation << 32), way_(way) {
  thread_ = std::move(LoopThread::start()).value();
  std::array<int, 2> ends{};
  MOBULA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
               "socketpair");
  engine_end_ = Fd(ends[0]);
  std::string directory = std::filesystem::temp_directory_path().string() + "/mobula-engine-XXXXXX";
  MOBULA_CHECK(::mkdtemp(directory.data()) != nullptr, "mkdtemp");
  bus_dir_ = directory;
  const auto keys = CurveKeys::generate().value();
  const auto ran = thread_->run([&] {
    LocalLink::Callbacks callbacks;
    callbacks.on_frame = [this](LocalFrame frame) {
      if (auto message = decode<ProcessToAgent>(frame.bytes)) on(*message);
    };
    callbacks.on_closed = [this](const Failure&) { link_.reset(); };
    link_ = LocalLink::open(thread_->loop(), Fd(ends[1]), std::move(callbacks)).value();
    allow_ = std::make_unique<AllowTable>(UnknownKeys::unproven);
    BusOptions options;
    options.keys = keys;
    options.allow = allow_.get();
    BusCallbacks bus_callbacks;
    bus_callbacks.on_message = [this](PeerHandle from, const PeerOrigin&,
                                      std::span<const std::byte> bytes) {
      bus_->trust(from);                         // as executors do after a valid ticket
      if (greeted_.insert(from).second) return;  // its hello message
      {
        const std::scoped_lock held(mutex_);
        ++frames_by_socket_;
      }
      // The session of a corrupted ring continues here. No other frames arrive by socket then.
      const std::uint64_t caller = broken_ ? broken_->bits().low : from.value;
      called(caller, bytes,
             [&](std::span<const std::byte> reply) { (void)bus_->send(from, reply); });
    };
    bus_ = Bus::create(thread_->loop(), std::move(options), std::move(bus_callbacks)).value();
    if (way_ != Way::by_socket) use_rings();
  });
  MOBULA_CHECK(ran.ok(), "a fresh loop runs what it is given");
  public_key_ = keys.public_key;
}

Endpoint FakeAgent::executor() {
  Endpoint endpoint;
  (void)thread_->run([&] { endpoint = next_executor(); });
  return endpoint;
}

// All endpoints lead to this process, by separate paths, because the engine identifies connections
// by path.
Endpoint FakeAgent::next_executor() {
  const std::uint64_t number = 1000 + ++executors_;
  Endpoint endpoint;
  endpoint.process = ProcessId::of(number);
  endpoint.public_key = public_key_;
  if (way_ == Way::by_socket_with_bell) {
    endpoint.node = NodeId::of(2);
    endpoint.address = bus_->bind("127.0.0.1:0").value();
    return endpoint;
  }
  endpoint.node = NodeId::of(1);
  endpoint.local = bus_->bind("ipc://" + bus_dir_ + "/" + std::to_string(number)).value();
  return endpoint;
}

FakeAgent::~FakeAgent() {
  (void)thread_->run([this] {
    bell_watch_.reset();
    link_.reset();
    bus_.reset();
  });
  thread_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(bus_dir_, ignored);
}

void FakeAgent::say(AgentToProcess message) {
  (void)thread_->run([&] { send(std::move(message)); });
}

void FakeAgent::die() {
  (void)thread_->run([this] { link_.reset(); });
}

std::uint64_t FakeAgent::calls() const {
  const std::scoped_lock held(mutex_);
  return calls_;
}

CallRecord FakeAgent::last_call() const {
  const std::scoped_lock held(mutex_);
  return last_call_;
}

std::uint64_t FakeAgent::frames_by_ring() const {
  const std::scoped_lock held(mutex_);
  return frames_by_ring_;
}

std::uint64_t FakeAgent::frames_by_socket() const {
  const std::scoped_lock held(mutex_);
  return frames_by_socket_;
}

void FakeAgent::break_next_ring() {
  (void)thread_->run([this] { break_next_ = true; });
}

void FakeAgent::refuse_rings() {
  (void)thread_->run([this] { refuse_ = true; });
}

std::uint64_t FakeAgent::rings_closed() const {
  const std::scoped_lock held(mutex_);
  return rings_closed_;
}

std::uint64_t FakeAgent::requested_rings() const {
  const std::scoped_lock held(mutex_);
  return requested_rings_;
}

std::uint64_t FakeAgent::slots() const {
  const std::scoped_lock held(mutex_);
  return slots_;
}

void FakeAgent::refuse_space() {
  const std::scoped_lock held(mutex_);
  refuses_space_ = true;
}

void FakeAgent::give_space() {
  (void)thread_->run([this] {
    std::vector<ReserveObjectRequest> requests;
    {
      const std::scoped_lock held(mutex_);
      refuses_space_ = false;
      requests.swap(waiting_for_space_);
    }
    for (const auto& each : requests) on(ProcessToAgent(each));
  });
}

std::size_t FakeAgent::waiting_for_space() const {
  const std::scoped_lock held(mutex_);
  return waiting_for_space_.size();
}

void FakeAgent::send(AgentToProcess message, std::vector<Fd> fds) {
  if (link_) (void)link_->send(encode(message), std::move(fds));
}

// ---- agent ------------------------------------------------------------------------------------

void FakeAgent::on(const ProcessToAgent& message) {
  if (const auto* reserve = std::get_if<ReserveObjectRequest>(&message)) {
    {
      const std::scoped_lock held(mutex_);
      if (refuses_space_) return waiting_for_space_.push_back(*reserve);
    }
    Stored& stored = store_[reserve->object];
    stored.slab = ++slabs_;
    stored.size_bytes = reserve->size_bytes;
    const auto size = static_cast<std::uint64_t>(reserve->size_bytes);
    stored.file = create_slab_file(size, "engine-test").value();
    ReserveObjectReply reserved{reserve->object,
                                {stored.slab, 0, stored.size_bytes},
                                true,
                                static_cast<std::int64_t>(slab_file_bytes(size)),
                                {}};
    std::vector<Fd> fds;
    fds.emplace_back(::fcntl(stored.file.get(), F_DUPFD_CLOEXEC, 0));
    send(std::move(reserved), std::move(fds));
  } else if (const auto* seal = std::get_if<SealObjectRequest>(&message)) {
    Stored& stored = store_.at(seal->object);
    MOBULA_CHECK(seal_slab_file(stored.file.get()).ok(), "seal");
    stored.sealed = true;
    stored.contained = seal->contained;
    send(SealObjectReply{seal->object});
  } else if (const auto* fetch = std::get_if<FetchObjectRequest>(&message)) {
    fetched(*fetch);
  } else if (const auto* release = std::get_if<ReleaseObject>(&message)) {
    store_.erase(release->object);
  } else if (const auto* hold = std::get_if<HoldObjectRequest>(&message)) {
    send(HoldObjectReply{hold->ref.object});
  } else if (const auto* open = std::get_if<OpenRingRequest>(&message)) {
    {
      const std::scoped_lock held(mutex_);
      ++requested_rings_;
    }
    open_ring(open->executor);
  } else if (const auto* closed = std::get_if<RingClosed>(&message)) {
    (void)rings_.close(closed->ring);
    std::erase_if(open_rings_, [&](const auto& each) { return each.second == closed->ring; });
    const std::scoped_lock held(mutex_);
    ++rings_closed_;
  } else if (const auto* head = std::get_if<ForHead>(&message)) {
    if (const auto* start = std::get_if<StartJob>(&head->message)) {
      send(FromHead{StartJobReply{start->job, "tests"}});
    } else if (const auto* read = std::get_if<ReadState>(&head->message)) {
      send(FromHead{ReadStateReply{read->request, "{}", ""}});
    } else if (const auto* demand = std::get_if<Demand>(&head->message);
               demand && demand->wanted_slots > 0) {
      SlotReady ready;
      {
        const std::scoped_lock held(mutex_);
        ready.slot = SlotId::of(++slots_);
      }
      ready.demand_class = demand->demand_class.id;
      ready.node = NodeId::of(1);
      ready.endpoint = next_executor();
      if (way_ == Way::by_ring_unasked) open_ring(ready.endpoint.process);
      send(FromHead{std::move(ready)});
    }
  }
}

void FakeAgent::fetched(const FetchObjectRequest& fetch) {
  FetchObjectReply readable;
  readable.object = fetch.ref.object;
  readable.fetch = fetch.fetch;
  const auto at = store_.find(readable.object);
  if (at == store_.end() || !at->second.sealed) {
    readable.failure = failure(ErrorCode::unavailable, "no such object");
    return send(std::move(readable));
  }
  Stored& stored = at->second;
  readable.location = {stored.slab, 0, stored.size_bytes};
  readable.new_slab = true;
  readable.slab_bytes =
      static_cast<std::int64_t>(slab_file_bytes(static_cast<std::uint64_t>(stored.size_bytes)));
  readable.contained = stored.contained;
  std::vector<Fd> fds;
  fds.emplace_back(::fcntl(stored.file.get(), F_DUPFD_CLOEXEC, 0));
  send(std::move(readable), std::move(fds));
}

// ---- executor ---------------------------------------------------------------------------------

void FakeAgent::called(std::uint64_t caller, std::span<const std::byte> bytes,
                       const Reply& reply_to) {
  auto called = decode_all<CallerFrame>(bytes);
  if (!called) return;
  auto& session = sessions_[caller];
  std::vector<ExecutorFrame> frames;
  for (auto& frame : *called) {
    const auto message = session.receive(monotonic_now(), std::move(frame), frames);
    const auto* push = message ? std::get_if<PushCall>(&*message) : nullptr;
    if (push == nullptr) continue;
    {
      const std::scoped_lock held(mutex_);
      ++calls_;
      last_call_ = push->call;
    }
    CallReply reply;
    reply.number = push->number;
    reply.task = push->call.task;
    const auto& arguments = *push->call.arguments;
    reply.results.push_back(arguments.empty() ? ValueRecord() : arguments.front().value);
    session.send(monotonic_now(), std::move(reply), frames);
  }
  frames.push_back(session.acknowledgement());
  for (const auto& each : frames) reply_to(encode(each));
}

// ---- rings -------------------------------------------------------------------------------------

void FakeAgent::use_rings() {
  engine_bell_ = DoorbellFiles::create().value();
  own_bell_ = DoorbellFiles::create().value();
  DoorbellFiles own = own_bell_.copy().value();
  std::vector<Fd> fds;
  fds.push_back(std::move(own.page));
  fds.push_back(std::move(own.event));
  MOBULA_CHECK(rings_.use_doorbell(std::move(fds)).ok(), "a doorbell");
  bell_watch_ = thread_->loop()
                    .watch(rings_.doorbell()->event(), Interest::read,
                           [this](Readiness) {
                             rings_.doorbell()->clear_event();
                             poll_rings();
                           })
                    .value();
  rings_.doorbell()->announce(Doorbell::Sleep::on_event);
  DoorbellFiles engines = engine_bell_.copy().value();
  fds.clear();
  fds.push_back(std::move(engines.page));
  fds.push_back(std::move(engines.event));
  if (spin_page_) fds.push_back(std::move(spin_page_));
  send(UseDoorbell{}, std::move(fds));
}

// Acts as one process with many callers, so that each executor has a separate ring.
void FakeAgent::open_ring(ProcessId executor) {
  if (open_rings_.contains(executor)) return;
  const auto ring = ++opened_;
  const auto index = static_cast<std::uint32_t>(ring % max_rings);
  Fd memory = SharedMemory::create_file(2 * ring_memory_bytes, "engine-test").value();
  const auto give = [&](DoorbellFiles bell) {
    std::vector<Fd> fds;
    fds.push_back(copy_of(memory).value());
    fds.push_back(std::move(bell.page));
    fds.push_back(std::move(bell.event));
    return fds;
  };
  send(OpenRingReply{executor, true, index, index, ring}, give(own_bell_.copy().value()));
  if (refuse_) return send(RingEnded{ring});
  MOBULA_CHECK(
      rings_.open({executor, false, index, index, ring}, give(engine_bell_.copy().value())).ok(),
      "a ring");
  open_rings_[executor] = ring;
  ring_files_[executor] = {index, std::move(memory)};
}

void FakeAgent::poll_rings() {
  RingLinks::Hearer hearer;
  hearer.read_calls = read_each([this](ProcessId executor, std::span<const std::byte> bytes) {
    called_by_ring(executor, bytes);
  });
  do {
    rings_.doorbell()->announce(Doorbell::Sleep::awake);
    (void)rings_.collect(hearer);
    rings_.doorbell()->announce(Doorbell::Sleep::on_event);
  } while (rings_.doorbell()->rung());
}

namespace {

DoorbellSleep sleep_at(const DoorbellFiles& bell) {
  const auto page = SharedMemory::map(bell.page.get(), doorbell_page_bytes).value();
  return static_cast<DoorbellSleep>(reinterpret_cast<DoorbellPage*>(page.data())->sleep.load());
}

}  // namespace

void FakeAgent::sleep_coalesced() {
  MOBULA_CHECK(
      thread_->run([this] { rings_.doorbell()->announce(Doorbell::Sleep::coalesced); }).ok(),
      "sleep_coalesced");
}

bool FakeAgent::sleeps_coalesced() const { return sleep_at(own_bell_) == DoorbellSleep::coalesced; }

void FakeAgent::poll() {
  MOBULA_CHECK(thread_->run([this] { poll_rings(); }).ok(), "a poll");
}

DoorbellSleep FakeAgent::engine_sleep() const { return sleep_at(engine_bell_); }

void FakeAgent::ring_engine() { DoorbellRinger::open(engine_bell_.copy().value()).value().ring(0); }

void FakeAgent::called_by_ring(ProcessId executor, std::span<const std::byte> bytes) {
  {
    const std::scoped_lock held(mutex_);
    ++frames_by_ring_;
  }
  if (std::exchange(break_next_, false)) {
    broken_ = executor;
    const auto& [index, file] = ring_files_.at(executor);
    auto memory = SharedMemory::map(file.get(), 2 * ring_memory_bytes).value();
    auto* const replies = reinterpret_cast<RingHeader*>(memory.data() + ring_memory_bytes);
    replies->written.store(std::uint64_t{1} << 60);
    DoorbellRinger::open(engine_bell_.copy().value()).value().ring(index);
  }
  if (broken_ == executor) return;
  called(executor.bits().low, bytes,
         [&](std::span<const std::byte> reply) { rings_.reply(executor, reply); });
}

}  // namespace mobula::internal::client
