#include "tensor/collective/carrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace mobula::internal::collective {
namespace {

constexpr std::size_t most_endpoint = 2'048;
constexpr std::size_t message_bytes = 256u << 10;
constexpr std::uint64_t window = 8;  // messages in transit to one member
constexpr Duration carrier_poll_interval = 50ms;

// Type of a message, its first byte. The values are part of the wire format: append only.
constexpr std::byte kind_hello{1};     // group (16 bytes), from (4), to (4), proof (32)
constexpr std::byte kind_welcome{2};   // same layout
constexpr std::byte kind_elements{3};  // number (8 bytes), payload
constexpr std::byte kind_credit{4};    // permits one more message
constexpr std::size_t greeting_bytes = 1 + 16 + 8;

void put_number(std::vector<std::byte>& to, std::uint64_t number, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(number >> (8 * i)));
}

std::uint64_t number_at(std::span<const std::byte> from, std::size_t at, unsigned bytes) {
  std::uint64_t number = 0;
  for (unsigned i = 0; i < bytes; ++i)
    number |= static_cast<std::uint64_t>(from[at + i]) << (8 * i);
  return number;
}

}  // namespace

class Carrier::OneWire final : public ByteStream {
 public:
  OneWire(std::shared_ptr<Carrier> of, std::uint32_t rank)
      : of_(std::move(of)), side_(of_->sides_[rank]) {}

  Result<std::size_t> send(std::span<const std::byte> bytes) override {
    std::size_t taken = 0;
    {
      const MutexLock lock(of_->mutex_);
      if (!side_.broken.empty()) return failure(ErrorCode::unavailable, side_.broken);
      if (bytes.empty() || side_.sent == side_.allowed) return taken;
      taken = std::min(bytes.size(), message_bytes);
      auto& message = side_.out.emplace_back();
      message.reserve(9 + taken);
      message.push_back(kind_elements);
      put_number(message, side_.sent++, 8);
      message.insert(message.end(), bytes.begin(),
                     bytes.begin() + static_cast<std::ptrdiff_t>(taken));
    }
    of_->post();
    return taken;
  }
  Result<std::size_t> receive(std::span<std::byte> buffer) override {
    std::size_t given = 0;
    {
      const MutexLock lock(of_->mutex_);
      if (side_.in.empty() && !side_.broken.empty())
        return failure(ErrorCode::unavailable, side_.broken);
      if (side_.in.empty() || buffer.empty()) return given;
      const auto& first = side_.in.front();
      given = std::min(buffer.size(), first.size() - side_.read);
      std::memcpy(buffer.data(), first.data() + side_.read, given);
      side_.read += given;
      if (side_.read < first.size()) return given;
      side_.in.pop_front();
      side_.read = 0;
      side_.out.push_back({kind_credit});
    }
    of_->post();
    return given;
  }
  bool prepare_sleep(bool to_send, bool to_receive) override {
    const MutexLock lock(of_->mutex_);
    return !side_.broken.empty() || (to_send && side_.sent < side_.allowed) ||
           (to_receive && !side_.in.empty());
  }
  short events(bool, bool) const override { return 0; }

 private:
  const std::shared_ptr<Carrier> of_;  // shared by the wires of all members
  Side& side_;
};

Result<std::shared_ptr<Carrier>> Carrier::open(const mobula_transport_plugin& plugin,
                                               const std::string& listen, const Membership& group,
                                               std::function<void()> wake) {
  std::shared_ptr<Carrier> made(new Carrier(plugin, group, std::move(wake)));
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  made->thread_ = std::move(*thread);
  Result<void> started;
  if (auto ran = made->thread_->run([&] { started = made->start(listen); }); !ran)
    return ran.error();
  if (!started) return started.error();
  return made;
}

Result<void> Carrier::start(const std::string& listen) {
  timer_ = std::make_unique<Timer>(thread_->loop(), [this] {
    timer_->arm(monotonic_now() + carrier_poll_interval);
    flush();
    poll();
  });
  host_ = {
      MOBULA_TRANSPORT_PLUGIN_VERSION, this,
      [](void* host, std::uint64_t link, const void* bytes, std::size_t size) {
        static_cast<Carrier*>(host)->on_message(link, {static_cast<const std::byte*>(bytes), size});
      },
      [](void* host, std::uint64_t link, const char* why) {
        static_cast<Carrier*>(host)->on_broken(link, why);
      }};
  std::array<char, 512> why{};
  guarded([&] { carrier_ = plugin_.create(&host_, listen.c_str(), why.data(), why.size()); });
  why.back() = '\0';
  if (carrier_ == nullptr) {
    return failure(ErrorCode::unavailable,
                   fmt::format("{}: {}", plugin_.name, threw_.empty() ? why.data() : threw_));
  }
  endpoint_.resize(most_endpoint);
  std::size_t size = 0;
  int descriptor = -1;
  guarded([&] {
    size = plugin_.endpoint(carrier_, endpoint_.data(), endpoint_.size());
    descriptor = plugin_.descriptor(carrier_);
  });
  if (!threw_.empty() || size == 0 || size > most_endpoint) {
    return failure(
        ErrorCode::unavailable,
        fmt::format("{}: {}", plugin_.name, threw_.empty() ? "it gives no endpoint" : threw_));
  }
  endpoint_.resize(size);
  auto watch = thread_->loop().watch(descriptor, Interest::read, [this](Readiness) { poll(); });
  if (!watch) return watch.error();
  watch_ = std::move(*watch);
  timer_->arm(monotonic_now() + carrier_poll_interval);
  return {};
}

Carrier::~Carrier() {
  if (!thread_) return;
  while (!thread_->run([this] { close(); })) std::this_thread::yield();
  thread_.reset();
}

void Carrier::close() {
  timer_.reset();
  watch_.reset();
  if (carrier_ != nullptr) guarded([&] { plugin_.destroy(carrier_); });
  carrier_ = nullptr;
}

// A carrier that threw may be in any state, so it is never called again, not even to destroy it.
template <class Call>
void Carrier::guarded(const Call& call) {
  if (!threw_.empty()) return;
  try {
    return call();
  } catch (const std::exception& thrown) {
    threw_ =
        fmt::format("the plugin '{}' threw: {}; it is used no more", plugin_.name, thrown.what());
  } catch (...) {
    threw_ = fmt::format("the plugin '{}' threw; it is used no more", plugin_.name);
  }
  carrier_ = nullptr;
  watch_.reset();
  {
    const MutexLock lock(mutex_);
    for (Side& side : sides_) {
      if (side.broken.empty()) side.broken = threw_;
    }
  }
  wake_();
}

void Carrier::poll() {
  int again = 0;
  if (carrier_ != nullptr) guarded([&] { again = plugin_.poll(carrier_); });
  if (again != 0 && timer_) timer_->arm(Time());
}

void Carrier::post() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(notified_, true)) return;
  }
  if (thread_->loop().post([this] { flush(); })) return;
  const MutexLock lock(mutex_);
  notified_ = false;  // mailbox full: the timer sends
}

void Carrier::flush() {
  std::vector<std::pair<std::uint64_t, std::deque<std::vector<std::byte>>>> all;
  {
    const MutexLock lock(mutex_);
    notified_ = false;
    for (Side& side : sides_) {
      if (side.link == 0 || side.out.empty() || !side.broken.empty()) continue;
      all.emplace_back(side.link, std::exchange(side.out, {}));
    }
  }
  for (const auto& [link, messages] : all) {
    for (const auto& message : messages) {
      if (carrier_ == nullptr) return;
      const mobula_carrier_bytes part{message.data(), message.size()};
      int refused = 1;
      guarded([&, to = link] { refused = plugin_.send(carrier_, to, &part, 1); });
      if (refused == 0) continue;
      if (carrier_ != nullptr) guarded([&, to = link] { plugin_.drop(carrier_, to); });
      on_broken(link, "the link takes no more");
      break;
    }
  }
}

// ---- handshake ----------------------------------------------------------------------------------

std::vector<std::byte> Carrier::greeting(std::byte kind, std::uint32_t from,
                                         std::uint32_t to) const {
  std::vector<std::byte> bytes{kind};
  bytes.insert(bytes.end(), group_.begin(), group_.end());
  put_number(bytes, from, 4);
  put_number(bytes, to, 4);
  const SealKey proof = derive_key(key_, bytes, "mobula collective carrier");
  bytes.insert(bytes.end(), proof.begin(), proof.end());
  return bytes;
}

void Carrier::connect(std::uint32_t rank, std::string endpoint) {
  const auto begin = [this, rank, endpoint = std::move(endpoint)] {
    std::array<char, 512> why{};
    std::uint64_t link = 0;
    if (carrier_ != nullptr) {
      guarded([&] {
        link = plugin_.connect(carrier_, endpoint.data(), endpoint.size(), why.data(), why.size());
      });
    }
    why.back() = '\0';
    {
      const MutexLock lock(mutex_);
      Side& side = sides_[rank];
      if (link == 0) {
        if (side.broken.empty()) side.broken = fmt::format("{}: {}", plugin_.name, why.data());
      } else {
        side.link = link;
        side.out.push_front(greeting(kind_hello, rank_, rank));
      }
    }
    wake_();
    flush();
  };
  while (!thread_->run(begin)) std::this_thread::yield();
}

Result<bool> Carrier::linked(std::uint32_t rank) const {
  const MutexLock lock(mutex_);
  const Side& side = sides_[rank];
  if (!side.broken.empty()) return failure(ErrorCode::unavailable, side.broken);
  return side.linked;
}

std::unique_ptr<ByteStream> Carrier::wire(std::uint32_t rank) {
  return std::make_unique<OneWire>(shared_from_this(), rank);
}

Carrier::Side* Carrier::side_of(std::uint64_t link) {
  const auto at = std::ranges::find(sides_, link, &Side::link);
  return at == sides_.end() ? nullptr : &*at;
}

// Requires the lock.
void Carrier::greeted(std::uint64_t link, std::span<const std::byte> bytes) {
  if (bytes.size() != greeting_bytes + 32) return;
  const auto from = static_cast<std::uint32_t>(number_at(bytes, 17, 4));
  if (from >= sides_.size() || from == rank_) return;
  const auto expected = greeting(bytes[0], from, rank_);
  std::byte differs{0};
  for (std::size_t i = 0; i < bytes.size(); ++i) differs |= bytes[i] ^ expected[i];
  Side& side = sides_[from];
  // The member of lower rank connects, once.
  const bool comes = bytes[0] == kind_hello && from < rank_ && side.link == 0;
  const bool answers = bytes[0] == kind_welcome && from > rank_ && side.link == link;
  if (differs != std::byte{0} || (!comes && !answers) || side.linked) return;
  side.linked = true;
  side.allowed = window;
  side.link = link;
  if (comes) side.out.push_front(greeting(kind_welcome, rank_, from));
}

// ---- received messages --------------------------------------------------------------------------

void Carrier::break_side(Side& side, const std::string& why) {
  if (side.broken.empty()) side.broken = fmt::format("{}: {}", plugin_.name, why);
}

void Carrier::on_message(std::uint64_t link, std::span<const std::byte> bytes) {
  bool drops = false;
  bool answers = false;
  {
    const MutexLock lock(mutex_);
    const std::byte kind = bytes.empty() ? std::byte{0} : bytes[0];
    Side* side = side_of(link);
    if (kind == kind_hello || kind == kind_welcome) {
      greeted(link, bytes);
      side = side_of(link);
      drops = side == nullptr;
      answers = !drops;
    } else if (side == nullptr || !side->broken.empty()) {
      drops = true;
    } else if (kind == kind_credit) {
      drops = side->allowed - side->sent >= window;
      if (!drops) ++side->allowed;
    } else if (kind == kind_elements && bytes.size() > 9 && bytes.size() <= 9 + message_bytes) {
      const std::uint64_t number = number_at(bytes, 1, 8);
      drops = number < side->arrived || number >= side->arrived + window ||
              side->in.size() + side->early.size() >= window ||
              !side->early.try_emplace(number, bytes.begin() + 9, bytes.end()).second;
      for (auto next = side->early.find(side->arrived); !drops && next != side->early.end();
           next = side->early.find(side->arrived)) {
        side->in.push_back(std::move(next->second));
        side->early.erase(next);
        ++side->arrived;
      }
    } else {
      drops = true;
    }
    if (drops && side != nullptr) break_side(*side, "it sends what no member sends");
  }
  if (drops) guarded([&] { plugin_.drop(carrier_, link); });
  wake_();
  if (answers) flush();
}

void Carrier::on_broken(std::uint64_t link, const char* why) {
  {
    const MutexLock lock(mutex_);
    if (Side* side = side_of(link)) break_side(*side, why);
  }
  wake_();
}

}  // namespace mobula::internal::collective
