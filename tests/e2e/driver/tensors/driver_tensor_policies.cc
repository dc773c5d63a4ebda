// Producers may change tensors that they have returned or put, by the tensor's policy. Within the
// producer, tensors share memory at every size.
#include <numeric>
#include <optional>
#include <string>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using mobula::Tensor;
using mobula::TensorPolicy;
using mobula::Transport;
using std::chrono::seconds;

struct Views {
  std::string name;
  std::optional<Tensor> small;
  std::vector<Tensor> more;
};

class PolicyMaker {
 public:
  Tensor make(int count) {
    kept_ = Tensor::zeros({count});
    return kept_;
  }
  // The transpose of a matrix, and every second element of it.
  Views make_views() {
    kept_ = Tensor::zeros({4, 6});
    return {"looks", kept_.transpose(0, 1), {kept_, Tensor::zeros({3})}};
  }
  bool are_mine(const Views& pair) {
    return pair.small->data() == kept_.data() && pair.more.at(0).data() == kept_.data() &&
           pair.small->shape()[0] == 6;
  }
  bool is_mine(const Tensor& tensor) { return tensor.data() == kept_.data(); }
  bool is_mine_by_ref(const std::vector<mobula::ObjectRef<Tensor>>& refs) {
    return is_mine(mobula::get(refs.at(0)));
  }
  // The outcome of adding one to each element.
  std::string write() {
    try {
      for (float& each : kept_.mutable_view<float>()) each += 1;
      return "written";
    } catch (const mobula::TensorSharedError&) {
      return "shared";
    }
  }
  // The same for a parameter.
  std::string write_given(const Tensor& given) {
    Tensor tensor = given;
    try {
      for (float& each : tensor.mutable_view<float>()) each += 1;
      return "written";
    } catch (const mobula::TensorSharedError&) {
      return "shared";
    }
  }
  float first(const Tensor& tensor) { return tensor.view<float>()[0]; }
  float first_of_mine() { return kept_.view<float>()[0]; }
  float hold(const Tensor& tensor) { return first(held_ = tensor); }
  float first_of_held() { return held_.view<float>()[0]; }
  void let_go() { held_ = Tensor(); }
  std::string wait_freed(double patience) {
    try {
      mobula::wait_tensor_freed(kept_, mobula::Duration(patience));
      return "freed";
    } catch (const mobula::GetTimeoutError&) {
      return "not in time";
    }
  }

 private:
  Tensor kept_, held_;
};

constexpr int a_million = 1 << 20;

mobula::CallOptions by_policy(TensorPolicy policy) {
  return {.tensor_transport = Transport::automatic, .tensor_policy = policy};
}

template <class T>
T in_time(const mobula::ObjectRef<T>& ref) {
  return mobula::get(ref, seconds(30));
}

int direct_same_memory(const Words&) {
  Report report;
  auto maker = mobula::actor<PolicyMaker>.remote();
  auto other = mobula::actor<PolicyMaker>.remote();
  const auto stays = by_policy(TensorPolicy::freeze);
  // Sizes of 4 B, 4 KiB, 20 KiB, around 64 KiB, and 4 MiB.
  for (const int count : {1, 1000, 5000, 16 * 1024, 16 * 1024 + 50, 16 * 1024 + 65, a_million}) {
    const auto made = maker.method<&PolicyMaker::make>().options(stays).remote(count);
    report.holds("the same memory in its maker", in_time(maker.call<&PolicyMaker::is_mine>(made)));
    report.holds("the same memory by a ref in a value",
                 in_time(maker.call<&PolicyMaker::is_mine_by_ref>(std::vector{made})));
    report.equal("another reads it", in_time(other.call<&PolicyMaker::first>(made)), 0);
    report.equal("another does not write to it",
                 in_time(other.call<&PolicyMaker::write_given>(made)), "shared");
    report.equal("its producer does not write to the argument",
                 in_time(maker.call<&PolicyMaker::write_given>(made)), "shared");
  }
  const auto views = maker.method<&PolicyMaker::make_views>().options(stays).remote();
  report.holds("several small ones, transposed",
               in_time(maker.call<&PolicyMaker::are_mine>(views)));
  report.equal("the rest of the value", in_time(views).name, "looks");

  // A small tensor travels inside its value, and the value keeps its producer from writing to it.
  auto small = maker.method<&PolicyMaker::make>().options(stays).remote(100);
  report.equal("the small tensor is referenced", in_time(maker.call<&PolicyMaker::write>()),
               "shared");
  report.equal("the returned value", in_time(maker.call<&PolicyMaker::first>(small)), 0);
  report.equal("the returned value, elsewhere", in_time(other.call<&PolicyMaker::first>(small)), 0);
  small = {};
  report.equal("after its release", in_time(maker.call<&PolicyMaker::wait_freed>(20)), "freed");
  report.equal("the small tensor is free", in_time(maker.call<&PolicyMaker::write>()), "written");
  // A tensor over the received value prevents writes after the release of the value.
  auto again = maker.method<&PolicyMaker::make>().options(stays).remote(100);
  report.equal("kept as a value", in_time(maker.call<&PolicyMaker::hold>(again)), 0);
  again = {};
  report.equal("a small tensor that has a reader", in_time(maker.call<&PolicyMaker::write>()),
               "shared");
  in_time(maker.call<&PolicyMaker::let_go>());
  report.equal("no reader is left", in_time(maker.call<&PolicyMaker::wait_freed>(20)), "freed");
  report.equal("a small tensor without readers", in_time(maker.call<&PolicyMaker::write>()),
               "written");

  // The same for a tensor of the driver.
  const Tensor mine = Tensor::zeros({100});
  const auto put = mobula::put(mine, {.tensor_transport = Transport::automatic});
  report.holds("the driver's own", in_time(put).data() == mine.data());
  const Tensor copied = mobula::get(mobula::put(mine));
  report.holds("in the store it is a copy", copied.data() != mine.data());
  return report.exit_code();
}

int direct_policies(const Words&) {
  Report report;
  auto maker = mobula::actor<PolicyMaker>.remote();
  auto other = mobula::actor<PolicyMaker>.remote();
  for (const int count : {100, a_million}) {
    // A snapshot, which no process writes to. The original memory stays with its producer.
    const auto copy =
        maker.method<&PolicyMaker::make>().options(by_policy(TensorPolicy::snapshot)).remote(count);
    report.equal("seen as it was", in_time(other.call<&PolicyMaker::hold>(copy)), 0);
    report.equal("after a snapshot", in_time(maker.call<&PolicyMaker::write>()), "written");
    report.equal("the snapshot", in_time(other.call<&PolicyMaker::first>(copy)), 0);
    report.equal("the snapshot that was held", in_time(other.call<&PolicyMaker::first_of_held>()),
                 0);
    report.equal("the snapshot in its maker", in_time(maker.call<&PolicyMaker::first>(copy)), 0);
    report.equal("the snapshot is not the memory of the producer",
                 in_time(maker.call<&PolicyMaker::is_mine>(copy)), false);
    report.equal("readers of a copy are not awaited",
                 in_time(maker.call<&PolicyMaker::wait_freed>(0.1)), "freed");
    in_time(other.call<&PolicyMaker::let_go>());

    // The producer's memory itself, which it may write to, also through a parameter.
    const auto shared =
        maker.method<&PolicyMaker::make>().options(by_policy(TensorPolicy::alias)).remote(count);
    report.equal("before the change", in_time(other.call<&PolicyMaker::hold>(shared)), 0);
    report.equal("a shared one", in_time(maker.call<&PolicyMaker::write>()), "written");
    report.holds("is the maker's own", in_time(maker.call<&PolicyMaker::is_mine>(shared)));
    report.equal("by a parameter", in_time(maker.call<&PolicyMaker::write_given>(shared)),
                 "written");
    report.equal("which is the maker's own", in_time(maker.call<&PolicyMaker::first_of_mine>()), 2);
    report.equal("in its maker it has changed", in_time(maker.call<&PolicyMaker::first>(shared)),
                 2);
    report.equal("another does not write to it",
                 in_time(other.call<&PolicyMaker::write_given>(shared)), "shared");
    if (count == a_million) {
      report.equal("others see the change where they see the memory",
                   in_time(other.call<&PolicyMaker::first_of_held>()), 2);
    }
    report.equal("the wait includes readers that accept changes",
                 in_time(maker.call<&PolicyMaker::wait_freed>(0.1)), "not in time");
    in_time(other.call<&PolicyMaker::let_go>());
  }
  report.equal("after the last reader", in_time(maker.call<&PolicyMaker::wait_freed>(20)), "freed");
  const Tensor mine = Tensor::zeros({a_million});
  Tensor writable = mine;
  const auto put = mobula::put(
      mine, {.tensor_transport = Transport::automatic, .tensor_policy = TensorPolicy::snapshot});
  writable.mutable_view<float>()[0] = 5;
  report.equal("a snapshot that was put", in_time(other.call<&PolicyMaker::first>(put)), 0);
  throws<mobula::InvalidRequestError>(report, "an unknown policy", [&] {
    (void)mobula::put(mine, {.tensor_transport = Transport::automatic,
                             .tensor_policy = static_cast<TensorPolicy>(7)});
  });
  return report.exit_code();
}

// If checks are enabled, a reader detects a change after the return. Aliasing causes the change
// here.
int direct_checked(const Words&) {
  Report report;
  auto maker = mobula::actor<PolicyMaker>.remote();
  auto other = mobula::actor<PolicyMaker>.remote();
  const auto shared =
      maker.method<&PolicyMaker::make>().options(by_policy(TensorPolicy::alias)).remote(a_million);
  report.equal("unchanged", in_time(other.call<&PolicyMaker::first>(shared)), 0);
  report.equal("a change", in_time(maker.call<&PolicyMaker::write>()), "written");
  for (auto* each : {&maker, &other}) {
    try {
      in_time(each->call<&PolicyMaker::first>(shared));
      report.fail("a change was not detected");
    } catch (const mobula::Error& error) {
      report.holds(error.what(),
                   std::string(error.what()).find("changed after return") != std::string::npos);
    }
  }
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> tensor_policy_scenarios() {
  return {{"direct_checked", &direct_checked},
          {"direct_same_memory", &direct_same_memory},
          {"direct_policies", &direct_policies}};
}

}  // namespace mobula::e2e
