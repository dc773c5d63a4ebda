// Scenarios about tensors that stay in their producer until a reader needs them.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using mobula::Tensor;
using mobula::Transport;
using std::chrono::seconds;

constexpr int many = 1 << 20;  // floats

Tensor numbered(int count, float first = 0) {
  Tensor tensor = Tensor::empty({count});
  for (float& each : tensor.mutable_view<float>()) each = first++;
  return tensor;
}

double total_of(const Tensor& tensor) {
  const Tensor packed = tensor.contiguous();
  const auto elements = packed.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}

double sum_to(double count) { return count * (count - 1) / 2; }

Tensor made_by_task(int count) { return numbered(count); }
double sum_by_task(const Tensor& tensor) { return total_of(tensor); }

// Sums are exact in a double. Exchanging two ranges changes the weighted sum.
float pattern(int number) { return static_cast<float>((number * 7919LL) % 65521); }

double sum_of_pattern(int count) {
  double sum = 0;
  for (int number = 0; number < count; ++number) sum += pattern(number) * (1 + number / 1024 % 64);
  return sum;
}

double weighed_total_of(const Tensor& tensor) {
  const auto elements = tensor.view<float>();
  double sum = 0;
  int number = 0;
  for (const float each : elements) {
    sum += each * (1 + number / 1024 % 64);
    ++number;
  }
  return sum;
}

struct Layers {
  std::vector<Tensor> weights;
  std::optional<Tensor> bias;
  std::string name;
};

class Painter {
 public:
  Tensor make(int count) { return kept_ = numbered(count); }
  Tensor make_pattern(int count) {
    kept_ = Tensor::empty({count});
    int number = 0;
    for (float& each : kept_.mutable_view<float>()) each = pattern(number++);
    return kept_;
  }
  Layers make_layers(int count) {
    return {{numbered(count), numbered(count, 1).reshape({2, -1}).transpose(0, 1)},
            numbered(3),
            "layers"};
  }
  std::tuple<Tensor, int> make_two(int count) { return {numbered(count), count}; }
  double sum(const Tensor& tensor) { return total_of(tensor); }
  double sum_layers(const Layers& layers) {
    double sum = total_of(*layers.bias);
    for (const Tensor& each : layers.weights) sum += total_of(each);
    return sum;
  }
  double weighed_sum(const Tensor& tensor) { return weighed_total_of(tensor); }
  bool is_mine(const Tensor& tensor) {
    return tensor.view<float>().data() == kept_.view<float>().data();
  }
  // The outcome of writing to a tensor that other processes may read, then of waiting for them.
  std::string write_and_wait(double patience) {
    std::string seen;
    try {
      (void)kept_.mutable_view<float>();
      seen = "written";
    } catch (const mobula::TensorSharedError&) {
      seen = "shared";
    }
    try {
      mobula::wait_tensor_freed(kept_, mobula::Duration(patience));
      (void)kept_.mutable_view<float>();
      return seen + ", then freed";
    } catch (const mobula::GetTimeoutError&) {
      return seen + ", then not in time";
    }
  }
  double sum_of_ref(const std::vector<mobula::ObjectRef<Tensor>>& refs) {
    return total_of(mobula::get(refs.at(0)));
  }
  // "PATH in place" or "PATH" for each transfer so far.
  std::vector<std::string> paths() {
    std::vector<std::string> out;
    for (const auto& each : mobula::transfer_log())
      out.push_back(each.path + (each.in_place ? " in place" : ""));
    return out;
  }
  void crash() { std::_Exit(3); }
  // Keeps the tensor, which other readers may then pull from here.
  double keep(const Tensor& tensor) { return weighed_total_of(held_ = tensor); }
  // The outcome of writing to the kept tensor, then to a copy.
  std::string write_what_is_kept() {
    std::string seen;
    try {
      (void)held_.mutable_view<float>();
      seen = "written";
    } catch (const mobula::TensorSharedError&) {
      seen = "shared";
    }
    Tensor own = held_.clone();
    for (float& each : own.mutable_view<float>()) each = -1;
    held_ = own;
    return seen;
  }
  // Bytes received per peer since the last call.
  std::map<std::string, std::int64_t> bytes_by_peer() {
    std::map<std::string, std::int64_t> bytes;
    const auto log = mobula::transfer_log();
    for (auto at = log.begin() + static_cast<std::ptrdiff_t>(seen_); at != log.end(); ++at)
      bytes[at->peer] += at->bytes;
    seen_ = log.size();
    return bytes;
  }
  void leave() { mobula::exit_actor(); }

 private:
  Tensor kept_, held_;
  std::size_t seen_ = 0;
};

const mobula::CallOptions stays{.tensor_transport = Transport::automatic};

// Arguments: the expected path between the two actors or an empty string, then options of the
// second actor.
int direct_tensors(const Words& arguments) {
  Report report;
  auto maker = mobula::actor<Painter>.remote();
  mobula::ActorOptions elsewhere;
  if (arguments.size() > 1) elsewhere.resources = {{arguments[1], 1}};
  auto user = mobula::actor<Painter>.options(elsewhere).remote();
  const auto made = maker.method<&Painter::make>().options(stays).remote(many);
  report.equal("sum by another actor", mobula::get(user.call<&Painter::sum>(made), seconds(30)),
               sum_to(many));
  report.holds("same memory in its maker",
               mobula::get(maker.call<&Painter::is_mine>(made), seconds(30)));
  report.equal("sum by a task", mobula::get(mobula::task<sum_by_task>.remote(made), seconds(30)),
               sum_to(many));
  report.equal("sum here", total_of(mobula::get(made, seconds(30))), sum_to(many));
  const auto layers = maker.method<&Painter::make_layers>().options(stays).remote(many);
  report.equal("several, nested", mobula::get(user.call<&Painter::sum_layers>(layers), seconds(30)),
               2 * sum_to(many) + many + 3);
  report.equal("the rest of the value", mobula::get(layers, seconds(30)).name, "layers");
  const auto [first, second] =
      maker.method<&Painter::make_two>().split().options(stays).remote(many);
  report.equal("one of two results", mobula::get(user.call<&Painter::sum>(first), seconds(30)),
               sum_to(many));
  report.equal("the other", mobula::get(second, seconds(30)), many);
  report.equal("inside another value",
               mobula::get(user.call<&Painter::sum_of_ref>(std::vector{made}), seconds(30)),
               sum_to(many));
  const auto put = mobula::put(numbered(many), {.tensor_transport = Transport::automatic});
  report.equal("put by the driver", mobula::get(user.call<&Painter::sum>(put), seconds(30)),
               sum_to(many));
  const auto by_task =
      mobula::task<made_by_task>.options({.tensor_transport = Transport::automatic}).remote(many);
  report.equal("made by a task", mobula::get(user.call<&Painter::sum>(by_task), seconds(30)),
               sum_to(many));
  report.equal("sum through the store",
               total_of(mobula::get(
                   made, {.tensor_transport = Transport::object_store, .timeout = seconds(30)})),
               sum_to(many));
  report.equal("once it is in the store",
               mobula::get(maker.call<&Painter::is_mine>(made), seconds(30)), true);
  const auto paths = mobula::get(user.call<&Painter::paths>(), seconds(30));
  report.holds("tensors were pulled", paths.size() >= 5);
  for (const auto& path : paths)
    report.equal("a path", path.substr(0, arguments.at(0).size()), arguments.at(0));
  report.equal(
      "small ones",
      total_of(mobula::get(maker.method<&Painter::make>().options(stays).remote(9), seconds(30))),
      36);
  return report.exit_code();
}

// A named transport is used exclusively, unless fallback is allowed.
int direct_paths(const Words&) {
  Report report;
  auto maker = mobula::actor<Painter>.remote();
  auto user = mobula::actor<Painter>.remote();
  const auto by = [&](mobula::CallOptions options) {
    return mobula::get(
        user.call<&Painter::sum>(maker.method<&Painter::make>().options(options).remote(many)),
        seconds(30));
  };
  report.equal("by tcp", by({.tensor_transport = Transport::tcp}), sum_to(many));
  report.equal("by shm", by({.tensor_transport = Transport::shm}), sum_to(many));
  const auto paths = mobula::get(user.call<&Painter::paths>(), seconds(30));
  report.holds("by these", paths == std::vector<std::string>{"tcp", "shm in place"});
  throws<mobula::TransferError>(report, "an unavailable transport",
                                [&] { by({.tensor_transport = Transport::nccl}); });
  return report.exit_code();
}

// Memory that other processes read cannot be written. It is writable again when no ref is left.
int direct_sharing(const Words&) {
  Report report;
  auto maker = mobula::actor<Painter>.remote();
  auto user = mobula::actor<Painter>.remote();
  {
    const auto made = maker.method<&Painter::make>().options(stays).remote(many);
    mobula::get(user.call<&Painter::sum>(made), seconds(30));
    report.equal("while a ref is here",
                 mobula::get(maker.call<&Painter::write_and_wait>(0.2), seconds(30)),
                 "shared, then not in time");
  }
  report.equal("once it is gone",
               mobula::get(maker.call<&Painter::write_and_wait>(20.0), seconds(30))
                       .substr(0, 40)
                       .find("freed") != std::string::npos,
               true);
  const auto own = mobula::put(numbered(many), {.tensor_transport = Transport::automatic});
  const Tensor seen = mobula::get(own);
  throws<mobula::TensorSharedError>(report, "waiting for oneself",
                                    [&] { mobula::wait_tensor_freed(seen, seconds(5)); });
  return report.exit_code();
}

// After a planned exit of the holder, its tensors are in the store. After a kill, they are lost,
// and tasks recompute them.
int direct_ends(const Words&) {
  Report report;
  auto maker = mobula::actor<Painter>.remote();
  auto user = mobula::actor<Painter>.remote();
  const auto made = maker.method<&Painter::make>().options(stays).remote(many);
  mobula::get(user.call<&Painter::sum>(made), seconds(30));
  maker.call<&Painter::leave>();
  throws<mobula::ActorDiedError>(report, "a call of one that left",
                                 [&] { mobula::get(maker.call<&Painter::paths>(), seconds(30)); });
  report.equal("after its maker left", mobula::get(user.call<&Painter::sum>(made), seconds(30)),
               sum_to(many));
  report.equal("here, too", total_of(mobula::get(made, seconds(30))), sum_to(many));
  report.equal("inside another value",
               mobula::get(user.call<&Painter::sum_of_ref>(std::vector{made}), seconds(30)),
               sum_to(many));

  auto other = mobula::actor<Painter>.remote();
  const auto lost = other.method<&Painter::make>().options(stays).remote(many);
  mobula::wait(std::vector{lost}, {.num_returns = 1, .timeout = seconds(30), .fetch_local = false});
  other.call<&Painter::crash>();
  throws<mobula::Error>(report, "a call of one that crashed",
                        [&] { mobula::get(other.call<&Painter::paths>(), seconds(30)); });
  throws<mobula::ObjectLostError>(report, "elements that are lost",
                                  [&] { (void)mobula::get(lost, seconds(30)); });
  throws<mobula::ObjectLostError>(
      report, "as an argument", [&] { mobula::get(user.call<&Painter::sum>(lost), seconds(30)); });
  report.equal("others work", mobula::get(user.call<&Painter::sum>(made), seconds(30)),
               sum_to(many));
  return report.exit_code();
}

constexpr int broadcast_floats = 16 << 20;  // floats: 64 MiB

mobula::ActorHandle<Painter> painter_at(const char* node) {
  return mobula::actor<Painter>.options({.num_cpus = 0, .resources = {{node, 1}}}).remote();
}

// A large tensor from one node to three others.
int direct_broadcast(const Words&) {
  Report report;
  constexpr std::int64_t whole = std::int64_t{broadcast_floats} * 4;
  const auto made_by = [](auto& maker) {
    return maker.template method<&Painter::make_pattern>()
        .options({.tensor_transport = Transport::tcp})
        .remote(broadcast_floats);
  };
  auto maker = painter_at("a");
  std::vector<mobula::ActorHandle<Painter>> readers{painter_at("b"), painter_at("c"),
                                                    painter_at("d")};
  const double sum = sum_of_pattern(broadcast_floats);

  // A single reader pulls only from the producer.
  report.equal("sum by the first",
               mobula::get(readers[0].call<&Painter::weighed_sum>(made_by(maker)), seconds(60)),
               sum);
  const auto first = mobula::get(readers[0].call<&Painter::bytes_by_peer>(), seconds(30));
  report.equal("peers of the first", first.size(), 1u);
  if (first.empty()) return report.exit_code();
  const std::string maker_id = first.begin()->first;
  report.equal("bytes of the first", first.begin()->second, whole);

  const auto made = made_by(maker);
  std::vector<mobula::ObjectRef<double>> sums;
  for (auto& each : readers) sums.push_back(each.call<&Painter::keep>(made));
  for (const double each : mobula::get(sums, seconds(60))) report.equal("a sum", each, sum);
  std::int64_t all = 0, by_maker = 0;
  for (auto& each : readers) {
    for (const auto& [peer, bytes] :
         mobula::get(each.call<&Painter::bytes_by_peer>(), seconds(30))) {
      all += bytes;
      by_maker += peer == maker_id ? bytes : 0;
    }
  }
  report.equal("bytes in all", all, 3 * whole);
  report.holds("readers gave each other much of it", by_maker < all - whole / 2);

  // Changes to a received tensor are not visible to other processes.
  report.equal("writing what came",
               mobula::get(readers[1].call<&Painter::write_what_is_kept>(), seconds(30)), "shared");
  auto late = painter_at("d");
  report.equal("sum by a late one", mobula::get(late.call<&Painter::keep>(made), seconds(60)), sum);
  std::int64_t by_others = 0;
  for (const auto& [peer, bytes] : mobula::get(late.call<&Painter::bytes_by_peer>(), seconds(30))) {
    by_others += peer == maker_id ? 0 : bytes;
  }
  report.holds("a late reader pulls from replica holders", by_others > whole / 2);

  // A replica holder dies during the transfer.
  for (int round = 0; round < 3; ++round) {
    auto keeper = painter_at("b");
    auto reader = painter_at("c");
    const auto another = made_by(maker);
    report.equal("sum by one that will die",
                 mobula::get(keeper.call<&Painter::keep>(another), seconds(60)), sum);
    const auto after = reader.call<&Painter::weighed_sum>(another);
    keeper.call<&Painter::crash>();
    report.equal("sum by a reader whose replica holder died", mobula::get(after, seconds(60)), sum);
  }

  // The producer does not wait for processes that only hold a replica.
  {
    const auto freed = made_by(maker);
    report.equal("sum by one that keeps a copy",
                 mobula::get(readers[0].call<&Painter::keep>(freed), seconds(60)), sum);
  }
  const auto waited = mobula::get(maker.call<&Painter::write_and_wait>(20.0), seconds(60));
  report.holds("its maker has its memory back", waited.find("freed") != std::string::npos);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> direct_scenarios() {
  return {{"direct_broadcast", &direct_broadcast},
          {"direct_tensors", &direct_tensors},
          {"direct_paths", &direct_paths},
          {"direct_sharing", &direct_sharing},
          {"direct_ends", &direct_ends}};
}

}  // namespace mobula::e2e
