#include "client/engine/fake_agent.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/check.h"
#include "protocol/codec.h"
#include "store/slab.h"

namespace mobula::internal::client {

FakeAgent::FakeAgent(std::uint64_t incarnation) : slabs_(incarnation << 32) {
  thread_ = std::move(LoopThread::start()).value();
  std::array<int, 2> ends{};
  MOBULA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "socketpair");
  engine_end_ = Fd(ends[0]);
  std::string folder = std::filesystem::temp_directory_path().string() + "/mobula-engine-XXXXXX";
  MOBULA_CHECK(::mkdtemp(folder.data()) != nullptr, "mkdtemp");
  bus_folder_ = folder;
  const auto keys = CurveKeys::generate().value();
  const auto ran = thread_->run([&] {
    LocalLink::Callbacks callbacks;
    callbacks.on_frame = [this](LocalFrame frame) {
      if (auto message = decode<ProcessToAgent>(frame.bytes)) heard(*message);
    };
    callbacks.on_closed = [this](const Failure&) { link_.reset(); };
    link_ = LocalLink::open(thread_->loop(), Fd(ends[1]), std::move(callbacks)).value();
    allow_ = std::make_unique<AllowTable>(UnknownKeys::unproven);
    BusOptions options;
    options.keys = keys;
    options.allow = allow_.get();
    BusCallbacks bus_callbacks;
    bus_callbacks.on_message = [this](PeerHandle from, const PeerOrigin&,
                                      std::span<const std::byte> bytes) { called(from, bytes); };
    bus_ = Bus::create(thread_->loop(), std::move(options), std::move(bus_callbacks)).value();
  });
  MOBULA_CHECK(ran.ok(), "a fresh loop runs what it is given");
  public_key_ = keys.public_key;
}

Endpoint FakeAgent::executor() {
  Endpoint endpoint;
  (void)thread_->run([&] { endpoint = next_executor(); });
  return endpoint;
}

// All are this one, at a path of their own each, as the engine tells connections apart.
Endpoint FakeAgent::next_executor() {
  const std::uint64_t number = 1000 + ++executors_;
  Endpoint endpoint;
  endpoint.process = ProcessId::of(number);
  endpoint.node = NodeId::of(1);
  endpoint.local = bus_->bind("ipc://" + bus_folder_ + "/" + std::to_string(number)).value();
  endpoint.public_key = public_key_;
  return endpoint;
}

FakeAgent::~FakeAgent() {
  (void)thread_->run([this] {
    link_.reset();
    bus_.reset();
  });
  thread_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(bus_folder_, ignored);
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

void FakeAgent::send(AgentToProcess message, std::vector<Fd> fds) {
  if (link_) (void)link_->send(encode(message), std::move(fds));
}

// ---- the agent ---------------------------------------------------------------------------------

void FakeAgent::heard(const ProcessToAgent& message) {
  if (const auto* reserve = std::get_if<ReserveObject>(&message)) {
    Stored& stored = store_[reserve->object];
    stored.slab = ++slabs_;
    stored.size_bytes = reserve->size_bytes;
    const auto size = static_cast<std::uint64_t>(reserve->size_bytes);
    stored.file = create_slab_file(size, "engine-test").value();
    ObjectReserved reserved{reserve->object, {stored.slab, 0, stored.size_bytes}, true,
                            static_cast<std::int64_t>(slab_file_bytes(size)), {}};
    std::vector<Fd> fds;
    fds.emplace_back(::fcntl(stored.file.get(), F_DUPFD_CLOEXEC, 0));
    send(std::move(reserved), std::move(fds));
  } else if (const auto* seal = std::get_if<SealObject>(&message)) {
    Stored& stored = store_.at(seal->object);
    MOBULA_CHECK(seal_slab_file(stored.file.get()).ok(), "seal");
    stored.sealed = true;
    stored.contained = seal->contained;
    send(ObjectSealed{seal->object});
  } else if (const auto* fetch = std::get_if<FetchObject>(&message)) {
    fetched(fetch->ref.object);
  } else if (const auto* release = std::get_if<ReleaseObject>(&message)) {
    store_.erase(release->object);
  } else if (const auto* hold = std::get_if<HoldObject>(&message)) {
    send(HoldConfirmed{hold->ref.object});
  } else if (const auto* head = std::get_if<ForHead>(&message)) {
    if (const auto* start = std::get_if<StartJob>(&head->message)) {
      send(FromHead{JobStarted{start->job, "tests"}});
    } else if (const auto* read = std::get_if<ReadState>(&head->message)) {
      send(FromHead{StateRead{read->request, "{}", ""}});
    } else if (const auto* demand = std::get_if<Demand>(&head->message); demand && demand->wanted_slots > 0) {
      SlotReady ready;
      ready.slot = SlotId::of(++slots_);
      ready.demand_class = demand->demand_class.id;
      ready.node = NodeId::of(1);
      ready.endpoint = next_executor();
      send(FromHead{std::move(ready)});
    }
  }
}

void FakeAgent::fetched(ObjectId object) {
  ObjectReadable readable;
  readable.object = object;
  const auto at = store_.find(object);
  if (at == store_.end() || !at->second.sealed) {
    readable.failure = failure(ErrorCode::unavailable, "no such object");
    return send(std::move(readable));
  }
  Stored& stored = at->second;
  readable.place = {stored.slab, 0, stored.size_bytes};
  readable.new_slab = true;
  readable.slab_bytes =
      static_cast<std::int64_t>(slab_file_bytes(static_cast<std::uint64_t>(stored.size_bytes)));
  readable.contained = stored.contained;
  std::vector<Fd> fds;
  fds.emplace_back(::fcntl(stored.file.get(), F_DUPFD_CLOEXEC, 0));
  send(std::move(readable), std::move(fds));
}

// ---- the executor ------------------------------------------------------------------------------

void FakeAgent::called(PeerHandle from, std::span<const std::byte> bytes) {
  const auto [at, fresh] = sessions_.try_emplace(from);
  if (fresh) return;  // its greeting
  auto frame = decode<CallerFrame>(bytes);
  if (!frame) return;
  auto& session = at->second;
  std::vector<ExecutorFrame> frames;
  auto message = session.receive(monotonic_now(), std::move(*frame), frames);
  if (message) {
    if (auto* push = std::get_if<PushCall>(&*message)) {
      {
        const std::scoped_lock held(mutex_);
        ++calls_;
      }
      CallReply reply;
      reply.number = push->number;
      reply.task = push->call.task;
      const auto& arguments = push->call.arguments;
      reply.results.push_back(arguments.empty() ? ValueRecord() : arguments.front().value);
      session.send(monotonic_now(), std::move(reply), frames);
    }
  }
  frames.push_back(session.acknowledgement());
  for (const auto& each : frames) (void)bus_->send(from, encode(each));
}

}  // namespace mobula::internal::client
