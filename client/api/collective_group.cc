#include <mobula/collective.h>

#include <algorithm>
#include <map>
#include <string>

#include <mobula/errors.h>
#include <mobula/get.h>

#include "base/model/nccl_rank.h"
#include "base/time.h"
#include "client/api/collective_calls.h"
#include "client/api/rules.h"
#include "client/engine/tensors/collective_groups.h"

namespace mobula {
namespace detail {
namespace {

namespace collective = internal::collective;

collective::GroupId group_id(std::uint64_t high, std::uint64_t low) {
  collective::GroupId id{};
  for (unsigned i = 0; i < 8; ++i) {
    id[i] = static_cast<std::byte>(high >> (8 * i));
    id[8 + i] = static_cast<std::byte>(low >> (8 * i));
  }
  return id;
}

const std::map<Transport, collective::Reach>& reaches() {
  static const std::map<Transport, collective::Reach> all = {
      {Transport::automatic, collective::Reach::any}, {Transport::shm, collective::Reach::shm},
      {Transport::tcp, collective::Reach::tcp},       {Transport::gloo, collective::Reach::gloo},
      {Transport::ucx, collective::Reach::ucx},       {Transport::nccl, collective::Reach::nccl}};
  return all;
}
collective::Reach reach_of(Transport transport) {
  const auto at = reaches().find(transport);
  return at == reaches().end() ? collective::Reach::any : at->second;
}
Transport transport_of(collective::Reach reach) {
  for (const auto& [transport, each] : reaches()) {
    if (each == reach) return transport;
  }
  return Transport::automatic;
}

const std::shared_ptr<const CallRequest>& beside_request() {
  static const auto made = [] {
    CallRequest request;
    request.beside = true;
    request.max_task_retries = 0;  // another incarnation is another process
    return std::make_shared<const CallRequest>(std::move(request));
  }();
  return made;
}

template <auto F, class Argument>
auto call_on(const std::shared_ptr<const Anchor>& actor, const Argument& argument) {
  using This = TaskEntry<F, false>;
  using Refs = typename This::Refs;
  OutgoingArguments<typename This::Parameters, const Argument&> arguments(argument);
  const auto target = runtime();
  const auto passed = arguments.passed_to(target);
  ResultIds<Refs, 1> results;
  require_submitted(target->call_actor(actor_call_of(This::entry, require_id(actor.get(), target),
                                                     beside_request(), passed, results.span())),
                    passed);
  return results.adopt(target);
}

}  // namespace

CollectiveJoined collective_join(const CollectiveJoin& request) {
  CollectiveJoined joined;
  const auto groups = runtime()->collectives();
  if (!groups) {
    joined.refusal = "its process has no part in collective groups";
    return joined;
  }
  collective::Membership group;
  group.id = group_id(request.id_high, request.id_low);
  group.name = request.name;
  group.rank = request.rank;
  group.reach = reach_of(request.transport);
  group.device = request.device;
  group.actors = request.actors;
  group.timeout = std::chrono::nanoseconds(request.timeout_ns);
  for (std::size_t i = 0; i < std::min(request.key.size(), group.key.size()); ++i) {
    group.key[i] = static_cast<std::byte>(request.key[i]);
  }
  const auto endpoint = groups->join(std::move(group));
  if (!endpoint) {
    joined.refusal = endpoint.error().text;
    joined.transport_refused = endpoint.error().code == internal::ErrorCode::invalid_argument;
    return joined;
  }
  joined.machine = endpoint->machine;
  joined.local = endpoint->local;
  joined.address = endpoint->address;
  joined.fabric = endpoint->fabric;
  joined.carrier = endpoint->carrier;
  joined.process = endpoint->process;
  joined.device = endpoint->device;
  joined.nccl_host = endpoint->nccl_host;
  joined.nccl_version = endpoint->nccl_version;
  return joined;
}

CollectiveNccl collective_nccl(const CollectiveId& group) {
  const auto groups = runtime()->collectives();
  return {groups && groups->shares_gpu(group_id(group.high, group.low))};
}

std::string collective_connect(const CollectiveConnect& request) {
  const auto groups = runtime()->collectives();
  if (!groups) return "its process has no part in collective groups";
  std::vector<collective::MemberEndpoint> endpoints;
  for (const auto& each : request.members) {
    endpoints.push_back({each.machine, each.local, each.address, each.fabric, each.carrier,
                         each.process, each.device, each.nccl_host, each.nccl_version});
  }
  const auto deadline = internal::monotonic_now() + std::chrono::nanoseconds(request.timeout_ns);
  const auto done =
      groups->connect(group_id(request.id_high, request.id_low), std::move(endpoints), deadline);
  return done ? std::string() : done.error().text;
}

std::string collective_open(const CollectiveConnect& request) {
  const auto groups = runtime()->collectives();
  if (!groups) return "its process has no part in collective groups";
  const auto deadline = internal::monotonic_now() + std::chrono::nanoseconds(request.timeout_ns);
  const auto done = groups->open(group_id(request.id_high, request.id_low), deadline);
  return done ? std::string() : done.error().text;
}

void collective_leave(const CollectiveId& group) {
  if (const auto groups = runtime()->collectives()) groups->leave(group_id(group.high, group.low));
}

}  // namespace detail

namespace {

namespace rules = internal::client;

// State of the creation of a group.
class Creation {
 public:
  Creation(std::shared_ptr<CollectiveGroup::Record> record, const std::vector<AnyActor>& actors,
           Duration timeout, int device)
      : record_(std::move(record)),
        actors_(actors),
        device_(static_cast<std::uint32_t>(device)),
        end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout)) {}

  void carry_out() {
    try {
      connect(join());
      if (is_of_library()) open();
    } catch (...) {
      leave();
      throw;
    }
  }

 private:
  Duration left() const {
    return std::max(std::chrono::duration_cast<Duration>(end_ - std::chrono::steady_clock::now()),
                    Duration(0));
  }

  std::string member(std::size_t rank) const {
    return "rank " + std::to_string(rank) + " (actor " + record_->actors[rank] + ")";
  }
  std::string what() const {
    return record_->name.empty() ? std::string("create_collective_group")
                                 : "create_collective_group \"" + record_->name + "\"";
  }

  [[noreturn]] void fail(const std::vector<int>& ranks, const std::string& why) const {
    detail::ErrorRecord error;
    error.kind = detail::ErrorKind::collective;
    error.message = what() + ": " + why;
    error.reason = "create";
    error.ranks = ranks;
    error.group = record_->name;
    detail::throw_error(error);
  }

  [[noreturn]] void fail_dead(std::size_t rank, const ActorDiedError& died) const {
    detail::ErrorRecord error = died.record();
    error.message = what() + ": " + member(rank) + " is dead: " + error.message;
    detail::throw_error(error);
  }

  // The replies of all members, by rank.
  template <class T>
  std::vector<T> all(const std::vector<ObjectRef<T>>& refs, const char* doing) const {
    std::vector<T> answers;
    std::vector<int> late;
    std::string names;
    for (std::size_t rank = 0; rank < refs.size(); ++rank) {
      try {
        answers.push_back(get(refs[rank], left()));
      } catch (const GetTimeoutError&) {
        late.push_back(static_cast<int>(rank));
        names += (names.empty() ? "" : ", ") + member(rank);
      } catch (const ActorDiedError& died) {
        fail_dead(rank, died);
      } catch (const Error& failed) {
        fail({static_cast<int>(rank)}, member(rank) + " cannot " + doing + ": " + failed.what());
      }
    }
    if (!late.empty()) {
      fail(late, names + (late.size() == 1 ? " has" : " have") +
                     " no reply within create_timeout to the request to " + doing +
                     "; an actor replies after its construction");
    }
    return answers;
  }

  std::vector<detail::CollectiveJoined> join() {
    detail::CollectiveJoin request{.id_high = record_->id.high,
                                   .id_low = record_->id.low,
                                   .name = record_->name,
                                   .transport = record_->transport,
                                   .timeout_ns = record_->timeout_ns,
                                   .actors = record_->actors,
                                   .device = device_};
    for (const auto each : internal::random_secret())
      request.key.push_back(static_cast<std::uint8_t>(each));
    std::vector<ObjectRef<detail::CollectiveJoined>> refs;
    for (std::size_t rank = 0; rank < actors_.size(); ++rank) {
      request.rank = static_cast<std::uint32_t>(rank);
      refs.push_back(detail::call_on<&detail::collective_join>(actors_[rank].anchor(), request));
    }
    auto joined = all(refs, "join");
    for (std::size_t rank = 0; rank < joined.size(); ++rank) {
      const auto& each = joined[rank];
      if (each.transport_refused) refuse_transport(rank, each.refusal);
      if (!each.refusal.empty()) fail({static_cast<int>(rank)}, member(rank) + ": " + each.refusal);
      if (record_->transport == Transport::shm && each.machine != joined[0].machine) {
        refuse_transport(rank,
                         "it is on another machine than rank 0, and shares no memory with it");
      }
    }
    if (record_->transport == Transport::nccl) check_communicator(joined);
    for (std::size_t rank = 0; rank < joined.size() && is_of_library(); ++rank) {
      const auto& each = joined[rank];
      if (each.machine != joined[0].machine &&
          (each.fabric.empty() || each.fabric != joined[0].fabric)) {
        refuse_transport(
            rank, "fabric not trusted: it is on another machine than rank 0, and what " + path() +
                      " sends is not sealed");
      }
    }
    return joined;
  }
  bool is_of_library() const {
    return record_->transport == Transport::nccl || record_->transport == Transport::gloo ||
           record_->transport == Transport::ucx;
  }
  std::string path() const {
    static const std::map<Transport, std::string> names = {{Transport::shm, "shm"},
                                                           {Transport::gloo, "gloo"},
                                                           {Transport::ucx, "ucx"},
                                                           {Transport::nccl, "nccl"}};
    const auto at = names.find(record_->transport);
    return at == names.end() ? "tcp" : at->second;
  }

  // Rejects memberships that NCCL would reject.
  void check_communicator(const std::vector<detail::CollectiveJoined>& joined) const {
    std::vector<internal::NcclRank> ranks;
    for (std::size_t rank = 0; rank < joined.size(); ++rank) {
      const auto& each = joined[rank];
      if (each.nccl_version != joined[0].nccl_version) {
        refuse_transport(rank, "its NCCL is " + each.nccl_version + ", that of rank 0 " +
                                   joined[0].nccl_version);
      }
      ranks.push_back({member(rank), each.nccl_host, each.device, each.nccl_version});
    }
    if (internal::ranks_on_one_gpu(ranks)) request_sharing(ranks);
    if (const auto objection = internal::objection_to_sharing(ranks))
      refuse_transport(objection->rank, objection->text);
  }
  // A member of an earlier release cannot reply: it does not share.
  void request_sharing(std::vector<internal::NcclRank>& ranks) const {
    std::vector<ObjectRef<detail::CollectiveNccl>> refs;
    for (const auto& actor : actors_) {
      refs.push_back(detail::call_on<&detail::collective_nccl>(
          actor.anchor(), detail::CollectiveId{record_->id.high, record_->id.low}));
    }
    for (std::size_t rank = 0; rank < refs.size(); ++rank) {
      try {
        ranks[rank].shares_gpu = get(refs[rank], left()).shares_gpu;
      } catch (const ActorDiedError& died) {
        fail_dead(rank, died);
      } catch (const Error&) {
        ranks[rank].shares_gpu = false;
      }
    }
  }

  void open() {
    const detail::CollectiveConnect request{
        record_->id.high,
        record_->id.low,
        std::chrono::duration_cast<std::chrono::nanoseconds>(left()).count(),
        {}};
    std::vector<ObjectRef<std::string>> refs;
    for (const auto& actor : actors_)
      refs.push_back(detail::call_on<&detail::collective_open>(actor.anchor(), request));
    const auto answers = all(refs, "open its library");
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      if (answers[rank].empty()) continue;
      check_members();
      refuse_transport(rank, answers[rank]);
    }
  }

  [[noreturn]] void refuse_transport(std::size_t rank, const std::string& why) const {
    detail::ErrorRecord error;
    error.kind = detail::ErrorKind::transfer;
    error.path = path();
    error.reason = member(rank) + ": " + why;
    error.message = what() + " over " + error.path + ": " + error.reason +
                    "; Transport::automatic takes another way";
    error.ranks = {static_cast<int>(rank)};
    detail::throw_error(error);
  }

  void connect(std::vector<detail::CollectiveJoined> joined) {
    const detail::CollectiveConnect request{
        record_->id.high, record_->id.low,
        std::chrono::duration_cast<std::chrono::nanoseconds>(left()).count(), std::move(joined)};
    std::vector<ObjectRef<std::string>> refs;
    for (const auto& actor : actors_)
      refs.push_back(detail::call_on<&detail::collective_connect>(actor.anchor(), request));
    const auto answers = all(refs, "connect");
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      if (answers[rank].empty()) continue;
      check_members();
      fail({static_cast<int>(rank)}, member(rank) + ": " + answers[rank]);
    }
  }

  // If a member cannot be reached by another, it may have died after its reply; then its death is
  // the reported reason.
  void check_members() const {
    std::vector<ObjectRef<void>> refs;
    for (const auto& actor : actors_) {
      refs.push_back(detail::call_on<&detail::collective_leave>(
          actor.anchor(), detail::CollectiveId{record_->id.high, record_->id.low}));
    }
    const Duration wait_timeout = std::min(left(), Duration(std::chrono::seconds(5)));
    for (std::size_t rank = 0; rank < refs.size(); ++rank) {
      try {
        get(refs[rank], wait_timeout);
      } catch (const ActorDiedError& died) {
        fail_dead(rank, died);
      } catch (const Error&) {
        // It is alive, or not known to be dead.
      }
    }
  }

  // Also sent to members that have not joined yet: they leave after they have joined.
  void leave() const noexcept {
    for (const auto& actor : actors_) {
      try {
        (void)detail::call_on<&detail::collective_leave>(
            actor.anchor(), detail::CollectiveId{record_->id.high, record_->id.low});
      } catch (...) {
        // It is dead, or this process leaves its cluster.
      }
    }
  }

  std::shared_ptr<CollectiveGroup::Record> record_;
  const std::vector<AnyActor>& actors_;
  const std::uint32_t device_;
  const std::chrono::steady_clock::time_point end_;
};

void check_transport(Transport transport) {
  switch (transport) {
    case Transport::automatic:
    case Transport::shm:
    case Transport::tcp:
    case Transport::gloo:
    case Transport::ucx:
    case Transport::nccl: return;
    case Transport::object_store:
      rules::refuse("transport", "collective groups have their own connections", "object_store");
    case Transport::nixl:
      rules::refuse("transport",
                    "nixl is one-sided and needs no group; groups take gloo, ucx or nccl", "nixl");
    default: break;
  }
  detail::ErrorRecord error;
  error.kind = detail::ErrorKind::transfer;
  error.path = "cuda_ipc";
  error.reason = "collective groups do not go over " + error.path + " in this version";
  error.message = "create_collective_group: " + error.reason +
                  "; take nccl, which goes between the GPUs of a machine, too";
  detail::throw_error(error);
}

const CollectiveGroup::Record& record_of(const CollectiveGroup& group) {
  if (group.empty()) rules::refuse("collective group", "it names a created group", "an empty one");
  return *group.record();
}

}  // namespace

std::string CollectiveGroup::id() const {
  return record_ ? detail::hex(record_->id) : std::string();
}

const std::string& CollectiveGroup::name() const {
  static const std::string none;
  return record_ ? record_->name : none;
}

int CollectiveGroup::size() const { return record_ ? static_cast<int>(record_->actors.size()) : 0; }

Transport CollectiveGroup::transport() const {
  return record_ ? record_->transport : Transport::automatic;
}

const std::vector<std::string>& CollectiveGroup::actor_ids() const {
  static const std::vector<std::string> none;
  return record_ ? record_->actors : none;
}

void Serializer<CollectiveGroup>::write(Writer& out, const CollectiveGroup& group) {
  out.write(!group.empty());
  if (group.empty()) return;
  const auto& record = *group.record();
  out.write(record.id.high);
  out.write(record.id.low);
  out.write(record.name);
  out.write(record.transport);
  out.write(record.timeout_ns);
  out.write(record.actors);
}

CollectiveGroup Serializer<CollectiveGroup>::read(Reader& in) {
  if (!in.read<bool>()) return {};
  auto record = std::make_shared<CollectiveGroup::Record>();
  record->id.high = in.read<std::uint64_t>();
  record->id.low = in.read<std::uint64_t>();
  record->name = in.read<std::string>();
  record->transport = in.read<Transport>();
  record->timeout_ns = in.read<std::int64_t>();
  record->actors = in.read<std::vector<std::string>>();
  return CollectiveGroup(std::move(record));
}

CollectiveGroup create_collective_group(const std::vector<AnyActor>& actors, Transport transport,
                                        const std::string& name,
                                        const CollectiveGroupOptions& options) {
  if (actors.empty() || actors.size() > internal::collective::max_members) {
    rules::refuse("actors",
                  "1 to " + std::to_string(internal::collective::max_members) + " of them",
                  std::to_string(actors.size()));
  }
  detail::check_name("name", name);
  const auto not_negative = [](const char* field, Duration given) {
    if (!(given > Duration(0))) rules::refuse(field, "more than 0", "less");
  };
  not_negative("timeout", options.timeout);
  not_negative("create_timeout", options.create_timeout);
  if (options.device < 0)
    rules::refuse("device", "the index of a GPU, from 0", std::to_string(options.device));
  const auto runtime = detail::runtime();
  auto record = std::make_shared<CollectiveGroup::Record>();
  std::map<std::string, std::size_t> seen;
  for (std::size_t rank = 0; rank < actors.size(); ++rank) {
    (void)detail::require_id(actors[rank].anchor().get(), runtime);
    const auto [at, fresh] = seen.emplace(actors[rank].id(), rank);
    if (!fresh) {
      rules::refuse("actors", "each once",
                    "actor " + at->first + " at " + std::to_string(at->second) + " and " +
                        std::to_string(rank));
    }
    record->actors.push_back(actors[rank].id());
    record->handles.push_back(actors[rank].anchor());
  }
  check_transport(transport);
  const auto id = internal::random_secret();
  for (unsigned i = 0; i < 8; ++i) {
    record->id.high |= static_cast<std::uint64_t>(id[i]) << (8 * i);
    record->id.low |= static_cast<std::uint64_t>(id[8 + i]) << (8 * i);
  }
  record->name = name;
  record->transport = transport;
  // Longer timeouts never expire in practice, and their nanoseconds would overflow.
  const Duration longest = std::chrono::hours(24 * 365);
  record->timeout_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::min(options.timeout, longest))
          .count();
  Creation(record, actors, std::min(options.create_timeout, longest), options.device).carry_out();
  return CollectiveGroup(std::move(record));
}

void destroy_collective_group(const CollectiveGroup& group) {
  const auto& record = record_of(group);
  const auto groups = detail::runtime()->collectives();
  const detail::CollectiveId id{record.id.high, record.id.low};
  const bool member = groups && groups->find(detail::group_id(id.high, id.low)) != nullptr;
  if (record.handles.empty() && !member &&
      !(groups && groups->has_left(detail::group_id(id.high, id.low)))) {
    throw InvalidRequestError(
        "destroy_collective_group: this process has neither created the group nor is it in it; "
        "destroy it where it was created, or in a method of one of its actors");
  }
  if (member) detail::collective_leave(id);  // closes its connections, which notifies the others
  std::vector<ObjectRef<void>> left;
  for (const auto& handle : record.handles) {
    const auto anchor = handle.lock();
    if (!anchor) continue;
    try {
      left.push_back(detail::call_on<&detail::collective_leave>(anchor, id));
    } catch (const ActorDiedError&) {
      continue;
    }
  }
  for (const auto& each : left) {
    try {
      get(each, std::chrono::seconds(30));
    } catch (const Error&) {
      // It is dead, or leaves later. The others have left.
    }
  }
}

CollectiveGroup collective_group(const std::string& name) {
  if (name.empty()) rules::refuse("name", "a collective group to look up has one", "none");
  const auto groups = detail::runtime()->collectives();
  const auto member = groups ? groups->find(std::string_view(name)) : nullptr;
  if (!member) {
    throw NotFoundError("collective_group \"" + name +
                        "\": the actor of this process is in no group of this name; it may "
                        "have been destroyed, or the actor have restarted since it was made");
  }
  const auto& group = member->group();
  auto record = std::make_shared<CollectiveGroup::Record>();
  for (unsigned i = 0; i < 8; ++i) {
    record->id.high |= static_cast<std::uint64_t>(group.id[i]) << (8 * i);
    record->id.low |= static_cast<std::uint64_t>(group.id[8 + i]) << (8 * i);
  }
  record->name = group.name;
  record->transport = detail::transport_of(group.reach);
  record->timeout_ns = group.timeout.count();
  record->actors = group.actors;
  return CollectiveGroup(std::move(record));
}

}  // namespace mobula
