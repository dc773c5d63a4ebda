#include "device/gpu/check/exchange_work.h"

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "protocol/codec/codec.h"
#include "protocol/tickets/ticket.h"
#include "tensor/exchange/tensor_exchange.h"
#include "transport/tensor/gpu/cuda_ipc_transport.h"

namespace mobula::internal::gpu_check {
namespace {

using exchange::Elements;
using exchange::PullResult;

std::string hex_of(std::string_view bytes) {
  std::string hex;
  for (const char each : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(each));
  return hex;
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::byte element(std::uint64_t object, std::size_t at) {
  return static_cast<std::byte>(at * 7 + at / 251 + object);
}

Result<DirectPath> path_named(const std::string& name) {
  for (const auto path : {DirectPath::cuda_ipc, DirectPath::nccl, DirectPath::staged,
                          DirectPath::tcp, DirectPath::shm}) {
    if (to_string(path) == name) return path;
  }
  return failure(ErrorCode::invalid_argument, "no way is called " + name);
}

}  // namespace

Json fresh_cluster() {
  const SigningKeys head = SigningKeys::generate();
  return {{"public", hex_of(head.public_key)}, {"secret", hex_of(head.secret_key)}};
}

class ExchangeWork::Impl {
 public:
  Result<void> start(const Json& order);
  Result<Json> register_tensor(const Json& order);
  Result<Json> pull(const Json& order);
  Result<Json> unregister(const Json& order);

 private:
  Result<std::uint64_t> wrong_bytes(const Elements& elements, std::uint64_t object);

  ProcessId process_;
  NodeId node_;
  std::shared_ptr<exchange::GpuDevices> gpus_;  // shared with the exchange
  std::uint64_t requests_ = 0;
  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  std::map<std::uint64_t, PullResult> arrivals_;        // by request
  std::unique_ptr<exchange::TensorExchange> exchange_;  // last: it reports completions
};

Result<void> ExchangeWork::Impl::start(const Json& order) {
  const std::uint64_t number = order.at("number");
  const std::string host = order.at("host");
  const SigningKeys head{from_hex(order.at("cluster").at("public").get<std::string>()),
                         from_hex(order.at("cluster").at("secret").get<std::string>())};
  exchange::GpuTerms terms;
  terms.memory_bytes = order.value("share", std::uint64_t{2} << 30);
  gpus_ = std::make_shared<exchange::GpuDevices>(std::vector{terms}, [](const std::string&) {});
  if (auto opened = gpus_->open(); !opened) return opened;
  const auto keys = CurveKeys::generate();
  if (!keys) return keys.error();
  process_ = ProcessId::of(number);
  node_ = NodeId::of(number);
  Ticket ticket;
  ticket.principal.role = Role::executor;
  ticket.principal.job = JobId::of(1);
  ticket.process = process_;
  ticket.node = node_;
  ticket.curve_key = keys->public_key;
  ticket.expires_ms = wall_clock_ms() + 3'600'000;
  exchange::ExchangeOptions options;
  options.self.process = process_;
  options.self.node = node_;
  options.job = JobId::of(1);
  options.ticket = sign_ticket(ticket, head);
  options.head_signing_key = head.public_key;
  options.keys = *keys;
  options.sockets = order.at("folder").get<std::string>() + "/x" + std::to_string(number);
  options.host_bind = "127.0.0.1:0";
  options.own_host = host;
  options.fabric = order.value("fabric", "gpu-check");
  options.gpus = gpus_;
  const auto completed = [this](PullResult arrival) {
    const std::scoped_lock lock(mutex_);
    const auto request = arrival.request;
    arrivals_.insert_or_assign(request, std::move(arrival));
    changed_.notify_all();
  };
  auto started = exchange::TensorExchange::start(
      std::move(options),
      {.completed = completed,
       .store = [](ObjectId, const SourceRegion&, const std::shared_ptr<const void>&) {}});
  if (!started) return started.error();
  exchange_ = std::move(*started);
  return {};
}

Result<Json> ExchangeWork::Impl::register_tensor(const Json& order) {
  const std::uint64_t object = order.at("object"), size = order.at("bytes");
  const int device_ordinal = gpus_->landing({});
  // An empty tensor uses a byte that is never read.
  auto taken = gpus_->take(device_ordinal, std::max<std::uint64_t>(size, 1));
  if (!taken) return taken.error();
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = element(object, i);
  if (size > 0) {
    DeviceCopy copy;
    copy.to = device_ordinal;
    copy.settled = true;
    copy.rows.push_back({.to = taken->bytes, .from = bytes.data(), .width = size});
    if (auto copied = gpus_->memory()->copy(copy); !copied) return copied.error();
  }
  const auto& device = gpus_->devices().at(static_cast<std::size_t>(device_ordinal));
  const std::span<const std::byte> there(taken->bytes, size);
  exchange_->register_tensor(
      ObjectId::of(object),
      region_of(device.context->uuid(), there, *device.arena->file_of(taken->bytes)), taken->owner);
  RefRecord ref{ObjectId::of(object), node_, process_, {}};
  const TransportPreference preference{.direct = true};
  ref.tensor = TensorRecord{
      static_cast<std::int64_t>(size), true, preference, exchange_->self(), 0, 0, device.uuid};
  const auto encoded = encode(ref);
  return Json{{"ref", hex_of({reinterpret_cast<const char*>(encoded.data()), encoded.size()})}};
}

Result<std::uint64_t> ExchangeWork::Impl::wrong_bytes(const Elements& elements,
                                                      std::uint64_t object) {
  std::vector<std::byte> here(elements.bytes.begin(), elements.device == on_host
                                                          ? elements.bytes.end()
                                                          : elements.bytes.begin());
  if (elements.device != on_host && !elements.bytes.empty()) {
    here.resize(elements.bytes.size());
    DeviceCopy copy;
    copy.from = elements.device;
    copy.settled = true;
    copy.rows.push_back({.to = here.data(), .from = elements.bytes.data(), .width = here.size()});
    if (auto copied = gpus_->memory()->copy(copy); !copied) return copied.error();
  }
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < here.size(); ++i) wrong += here[i] == element(object, i) ? 0 : 1;
  return wrong;
}

Result<Json> ExchangeWork::Impl::pull(const Json& order) {
  const std::string bytes = from_hex(order.at("ref").get<std::string>());
  auto ref = decode<RefRecord>(std::as_bytes(std::span(bytes)));
  if (!ref) return ref.error();
  const auto path = path_named(order.at("path"));
  if (!path) return path.error();
  ref->tensor.edit().preference.named = *path;
  const std::uint64_t request = ++requests_;
  const Time begin = monotonic_now();
  exchange_->pull(request, {*ref}, false);
  std::unique_lock lock(mutex_);
  const auto timeout = std::chrono::milliseconds(order.value("within_ms", 60'000));
  if (!changed_.wait_for(lock, timeout, [&] { return arrivals_.contains(request); })) {
    exchange_->cancel(request);
    return failure(ErrorCode::timed_out,
                   fmt::format("no bytes arrived within {} ms", timeout.count()));
  }
  const PullResult arrival = std::move(arrivals_.extract(request).mapped());
  lock.unlock();
  const double seconds = std::chrono::duration<double>(monotonic_now() - begin).count();
  const auto* elements = std::get_if<Elements>(&arrival.outcome);
  if (elements == nullptr) {
    std::string why;
    for (const auto& each : arrival.refusals) why += (why.empty() ? "" : "; ") + each;
    const auto* failed = std::get_if<Failure>(&arrival.outcome);
    return failure(failed == nullptr ? ErrorCode::not_found : failed->code,
                   why.empty() && failed != nullptr ? failed->text : why);
  }
  const auto wrong = wrong_bytes(*elements, ref->object.bits().low);
  if (!wrong) return wrong.error();
  return Json{{"wrong_bytes", *wrong},
              {"seconds", seconds},
              {"on_device", elements->device != on_host},
              {"encrypted", elements->encrypted},
              {"path", arrival.path ? std::string(to_string(*arrival.path)) : std::string("none")}};
}

Result<Json> ExchangeWork::Impl::unregister(const Json& order) {
  exchange_->unregister(ObjectId::of(order.at("object").get<std::uint64_t>()));
  return Json{{"retired", true}};
}

ExchangeWork::ExchangeWork(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExchangeWork::~ExchangeWork() = default;

Result<std::unique_ptr<ExchangeWork>> ExchangeWork::start(const Json& order) {
  auto impl = std::make_unique<Impl>();
  if (auto started = impl->start(order); !started) return started.error();
  return std::unique_ptr<ExchangeWork>(new ExchangeWork(std::move(impl)));
}

Result<Json> ExchangeWork::register_tensor(const Json& order) {
  return impl_->register_tensor(order);
}
Result<Json> ExchangeWork::pull(const Json& order) { return impl_->pull(order); }
Result<Json> ExchangeWork::unregister(const Json& order) { return impl_->unregister(order); }

}  // namespace mobula::internal::gpu_check
