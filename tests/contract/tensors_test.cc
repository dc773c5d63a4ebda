// docs/api.md, 2.6, 3.2 and 3.3: values, tensors in host memory and collective groups.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <complex>
#include <memory>
#include <numeric>
#include <optional>
#include <variant>

#include "contract/local_cluster.h"
#include "contract/rule.h"

namespace mobula::contract::tensors {
enum class Kind { small, large };
struct Inner {
  std::string text;
  std::optional<int> number;
  bool operator==(const Inner&) const = default;
};
struct Outer {
  Kind kind = Kind::small;
  std::vector<Inner> inner;
  std::map<std::string, std::variant<int, std::string>> any;
  std::tuple<int, double> pair;
  bool operator==(const Outer&) const = default;
};
class Money {
 public:
  explicit Money(std::int64_t cents) : cents_(cents) {}
  std::int64_t cents() const { return cents_; }

 private:
  std::int64_t cents_;
};
}  // namespace mobula::contract::tensors

template <>
struct mobula::Serializer<mobula::contract::tensors::Money> {
  static void write(Writer& out, const contract::tensors::Money& money) {
    out.write(money.cents());
  }
  static contract::tensors::Money read(Reader& in) {
    return contract::tensors::Money(in.read<std::int64_t>());
  }
};

namespace mobula::contract::tensors {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::got;
using mobula::testing::wait_timeout;

template <class T>
T echo(const T& value) {
  return value;
}
template <class T>
void expect_travels(const T& value) {
  EXPECT_EQ(got(mobula::task<echo<T>>.remote(value)), value);
}

TEST(ContractValues, TravelWithoutCode) {
  expect_travels(std::string("text"));
  expect_travels(std::optional<int>(3));
  expect_travels(std::map<std::string, std::vector<int>>{{"a", {1, 2}}});
  expect_travels(std::variant<int, std::string>("text"));
  expect_travels(std::tuple<int, std::string>(1, "b"));
  expect_travels(Kind::large);
  expect_travels(Outer{Kind::large, {{"a", 1}, {"b", {}}}, {{"x", 1}, {"y", "z"}}, {1, 2.5}});
  expect_travels(std::complex<double>(1, -1));
  expect_travels(std::chrono::milliseconds(5));
  expect_travels(std::chrono::system_clock::time_point(std::chrono::seconds(5)));
  EXPECT_EQ(*got(mobula::put(std::make_unique<int>(7))), 7);
  EXPECT_EQ(got(mobula::put(Money(250))).cents(), 250) << "no default constructor is needed";
}

constexpr int many = 100'000;  // floats
Tensor ramp(int count) {
  Tensor tensor = Tensor::empty({count});
  auto elements = tensor.mutable_view<float>();
  std::iota(elements.begin(), elements.end(), 0.0f);
  return tensor;
}
double sum_of(const Tensor& tensor) {
  const auto elements = tensor.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}
double ramp_sum(double count) { return count * (count - 1) / 2; }

TEST(ContractTensors, HaveTheirOperations) {
  const Tensor zeros = Tensor::zeros({2, 3}, DType::int32, Device{});
  EXPECT_EQ(zeros.shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(zeros.strides(), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(zeros.dtype(), DType::int32);
  EXPECT_EQ(zeros.device(), Device{});
  EXPECT_EQ(zeros.size(), 6);
  EXPECT_EQ(zeros.bytes(), 24);
  EXPECT_TRUE(zeros.is_contiguous());
  const Tensor turned = zeros.transpose(0, 1);
  EXPECT_FALSE(turned.is_contiguous());
  EXPECT_TRUE(turned.contiguous().is_contiguous());
  EXPECT_EQ(zeros.reshape({6}).data(), zeros.data());
  EXPECT_NE(zeros.clone().data(), zeros.data());
  EXPECT_EQ(zeros.to(Device{}).data(), zeros.data());
  EXPECT_EQ(zeros.view<std::int32_t>()[5], 0);
  Tensor written = Tensor::empty({1});
  EXPECT_EQ(written.mutable_data(), written.data());
  written.mutable_view<float>()[0] = 4;
  EXPECT_EQ(written.view<float>()[0], 4);
  const std::vector<float> source{1, 2, 3};
  EXPECT_NE(Tensor::from(source).data(), source.data());
  auto owner = std::make_shared<std::vector<float>>(source);
  EXPECT_EQ(Tensor::over(*owner, owner).data(), owner->data());
  EXPECT_EQ(dtype_of<float>, DType::float32);
  EXPECT_EQ(dtype_of<std::complex<float>>, DType::complex64);
  written.produced_on(nullptr);
}

TEST(ContractTensors, DTypesHaveTheirNames) {
  for (const DType each :
       {DType::boolean, DType::uint8, DType::uint16, DType::uint32, DType::uint64, DType::int8,
        DType::int16, DType::int32, DType::int64, DType::float16, DType::bfloat16, DType::float32,
        DType::float64, DType::complex64, DType::complex128, DType::float8_e4m3fn,
        DType::float8_e5m2, DType::float8_e8m0}) {
    EXPECT_GT(item_bytes(each), 0u) << dtype_name(each);
  }
}

struct Model {
  std::string name;
  std::vector<Tensor> layers;
};

class Holder {
 public:
  Tensor make(int count) { return kept_ = ramp(count); }
  Model make_model(int count) { return {"model", {ramp(count), ramp(count)}}; }
  Model make_mixed(int count) {
    kept_ = ramp(1);
    return {"mixed", {kept_, ramp(count)}};
  }
  bool is_mine(const Tensor& tensor) { return tensor.data() == kept_.data(); }
  double sum(const Tensor& tensor) { return sum_of(tensor); }
  double sum_model(const Model& model) {
    return sum_of(model.layers.at(0)) + sum_of(model.layers.at(1));
  }
  std::string write() {
    try {
      kept_.mutable_view<float>()[0] += 1;
      return "written";
    } catch (const TensorSharedError&) {
      return "shared";
    }
  }
  std::string wait_freed(double seconds) {
    try {
      mobula::wait_tensor_freed(kept_, Duration(seconds));
      return "freed";
    } catch (const GetTimeoutError& error) {
      return error.what();
    } catch (const TensorSharedError& error) {
      return std::string("refused: ") + error.what();
    }
  }
  std::string wait_freed_given_ref(const ObjectRef<Tensor>&) { return wait_freed(20.0); }
  std::string wait_freed_given_tensor(const Tensor&) { return wait_freed(20.0); }
  std::string wait_freed_given_refs(const std::vector<ObjectRef<Tensor>>&) {
    return wait_freed(20.0);
  }
  std::int64_t keep(const Tensor& tensor) {
    kept_ = tensor;
    return ::getpid();
  }
  std::vector<std::string> paths() {
    std::vector<std::string> out;
    for (const auto& each : mobula::transfer_log()) out.push_back(each.path);
    return out;
  }
  Tensor reduce(const std::string& group) {
    return mobula::collective_group(group).all_reduce(ramp(4));
  }
  std::string refuse(const std::string& group, int count) {
    try {
      (void)mobula::collective_group(group).all_reduce(ramp(count));
      return "reduced";
    } catch (const CollectiveError& error) {
      return error.reason() + (error.intact() ? " intact" : " broken") +
             (error.ranks().empty() ? "" : " ranks");
    }
  }
  std::string describe(const std::string& name) {
    const auto group = mobula::collective_group(name);
    return group.name() + " " + std::to_string(group.rank()) + " of " +
           std::to_string(group.size());
  }
  bool knows(const std::string& name) {
    try {
      (void)mobula::collective_group(name);
      return true;
    } catch (const NotFoundError&) {
      return false;
    }
  }
  double all_operations(const std::string& name) {
    const auto group = mobula::collective_group(name);
    const int rank = group.rank();
    const int other = 1 - rank;
    group.barrier();
    double sum = sum_of(group.broadcast(rank == 0 ? ramp(4) : Tensor{}, {.root = 0}));
    Tensor own = ramp(4);
    group.broadcast_in_place(own, {.root = 1});
    group.all_reduce_in_place(own, {.op = ReduceOp::max});
    sum += sum_of(own);
    const Tensor reduced = group.reduce(ramp(4), {.root = 0, .op = ReduceOp::sum});
    sum += rank == 0 ? sum_of(reduced) : 0;
    sum += sum_of(group.reduce_scatter(ramp(4), {.op = ReduceOp::product}));
    for (const Tensor& each : group.all_gather(ramp(4))) sum += sum_of(each);
    for (const Tensor& each : group.gather(ramp(4), {.root = 0})) sum += sum_of(each);
    sum += sum_of(group.scatter(rank == 0 ? std::vector{ramp(4), ramp(4)} : std::vector<Tensor>{},
                                {.root = 0}));
    for (const Tensor& each : group.all_to_all({ramp(4), ramp(4)})) sum += sum_of(each);
    if (rank == 0)
      group.send(ramp(4), other);
    else
      sum += sum_of(group.receive(other));
    return sum;
  }

 private:
  Tensor kept_;
};

double sum_by_task(const Tensor& tensor) { return sum_of(tensor); }
Tensor made_by_task(int count) { return ramp(count); }

TEST(ContractTransports, NamedTransportsAreStrict) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto user = mobula::actor<Holder>.remote();
  const auto by = [&](CallOptions options) {
    return got(
        user.call<&Holder::sum>(maker.method<&Holder::make>().options(options).remote(many)));
  };
  EXPECT_EQ(by({.tensor_transport = Transport::tcp}), ramp_sum(many));
  EXPECT_EQ(by({.tensor_transport = Transport::shm}), ramp_sum(many));
  EXPECT_EQ(got(user.call<&Holder::paths>()), (std::vector<std::string>{"tcp", "shm"}));
  try {
    (void)by({.tensor_transport = Transport::nccl});
    ADD_FAILURE() << "nccl carried a tensor of host memory";
  } catch (const TransferError& error) {
    EXPECT_NE(error.path().find("nccl"), std::string::npos) << error.what();
    EXPECT_FALSE(error.reason().empty());
  }
  EXPECT_EQ(by({.tensor_transport = Transport::nccl, .allow_fallback = true}), ramp_sum(many));
}

TEST(ContractTransports, PluginsCarryTensorsWhenInstalled) {
  expect_rule("3.2.tensor_transport-1", [] {
    const auto maker = mobula::actor<Holder>.remote();
    const auto user = mobula::actor<Holder>.remote();
    const CallOptions gloo{.tensor_transport = Transport::gloo};
    return got(user.call<&Holder::sum>(maker.method<&Holder::make>().options(gloo).remote(many))) ==
           ramp_sum(many);
  });
}

TEST(ContractTransports, ServeTasksStructsAndPuts) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto user = mobula::actor<Holder>.remote();
  const auto model = maker.method<&Holder::make_model>()
                         .options({.tensor_transport = Transport::automatic})
                         .remote(many);
  EXPECT_EQ(got(user.call<&Holder::sum_model>(model)), 2 * ramp_sum(many));
  EXPECT_EQ(got(model).name, "model");
  const auto by_task =
      mobula::task<made_by_task>.options({.tensor_transport = Transport::automatic}).remote(many);
  EXPECT_EQ(got(user.call<&Holder::sum>(by_task)), ramp_sum(many));
  const auto put = mobula::put(ramp(many), {.tensor_transport = Transport::automatic});
  EXPECT_EQ(got(mobula::task<sum_by_task>.remote(put)), ramp_sum(many));
  const GetOptions chosen{
      .tensor_transport = Transport::object_store, .device = Device{}, .timeout = wait_timeout};
  EXPECT_EQ(sum_of(mobula::get(by_task, chosen)), ramp_sum(many));
}

TEST(ContractTransports, SameActorSeesTheSameMemory) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto made = maker.method<&Holder::make>()
                        .options({.tensor_transport = Transport::automatic})
                        .remote(many);
  EXPECT_TRUE(got(maker.call<&Holder::is_mine>(made)));
}

TEST(ContractTransports, PoliciesDecideOnWrites) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto write_under = [&](TensorPolicy policy) {
    const CallOptions direct{.tensor_transport = Transport::automatic, .tensor_policy = policy};
    const auto made = maker.method<&Holder::make>().options(direct).remote(many);
    (void)mobula::wait({made}, {.timeout = wait_timeout, .fetch_local = false});
    return got(maker.call<&Holder::write>());
  };
  EXPECT_EQ(write_under(TensorPolicy::freeze), "shared");
  EXPECT_EQ(write_under(TensorPolicy::snapshot), "written");
  EXPECT_EQ(write_under(TensorPolicy::alias), "written");
  const auto stored = maker.call<&Holder::make>(many);
  EXPECT_EQ(sum_of(got(stored)), ramp_sum(many));
  EXPECT_EQ(got(maker.call<&Holder::write>()), "written") << "object_store copies";
}

TEST(ContractTransports, WaitTensorFreedEnds) {
  const auto maker = mobula::actor<Holder>.remote();
  auto made = maker.method<&Holder::make>()
                  .options({.tensor_transport = Transport::automatic})
                  .remote(many);
  const auto timeout = got(maker.call<&Holder::wait_freed>(0.1));
  EXPECT_NE(timeout, "freed");
  made = {};
  EXPECT_EQ(got(maker.call<&Holder::wait_freed>(20.0)), "freed");
  const auto own = mobula::put(ramp(many), {.tensor_transport = Transport::automatic});
  const Tensor seen = mobula::get(own);
  EXPECT_THROW(mobula::wait_tensor_freed(seen, wait_timeout), TensorSharedError);
}

// Blocks in a call of another actor.
class Relay {
 public:
  explicit Relay(ActorHandle<Holder> maker) : maker_(std::move(maker)) {}
  std::string wait_freed() { return mobula::get(maker_.call<&Holder::wait_freed>(20.0)); }

 private:
  ActorHandle<Holder> maker_;
};

ObjectRef<Tensor> made_by(const ActorHandle<Holder>& maker, int count = many) {
  return maker.method<&Holder::make>()
      .options({.tensor_transport = Transport::automatic})
      .remote(count);
}

bool names_driver(const std::string& text) {
  return text.find("driver (pid " + std::to_string(::getpid()) + " on node ") != std::string::npos;
}

TEST(ContractTransports, WaitTensorFreedNamesHolders) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto reader = mobula::actor<Holder>.remote();
  auto made = made_by(maker);
  const auto pid = std::to_string(got(reader.call<&Holder::keep>(made)));
  const auto both = got(maker.call<&Holder::wait_freed>(0.1));
  expect_rule("3.2.wait_tensor_freed-2", [&] { return names_driver(both); });
  made = {};
  const auto one = got(maker.call<&Holder::wait_freed>(0.1));
  EXPECT_FALSE(names_driver(one)) << one;
  for (const auto& text : {both, one}) {
    EXPECT_NE(text.find("actor mobula::contract::tensors::"), std::string::npos) << text;
    EXPECT_NE(text.find("Holder"), std::string::npos) << text;
    EXPECT_NE(text.find("(pid " + pid + " on node "), std::string::npos) << text;
  }
}

// The two deadlocks of a wait inside a call: its own argument, and a caller that waits for it.
TEST(ContractTransports, WaitTensorFreedRefusesItsArgument) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto expect_refused = [](const std::string& text) {
    EXPECT_EQ(text.substr(0, 8), "refused:") << text;
  };
  auto made = made_by(maker);
  expect_refused(got(maker.call<&Holder::wait_freed_given_ref>(made)));
  expect_refused(got(maker.call<&Holder::wait_freed_given_tensor>(made)));
  expect_refused(got(maker.call<&Holder::wait_freed_given_refs>(std::vector{made})));
  made = {};
  EXPECT_EQ(got(maker.call<&Holder::wait_freed>(20.0)), "freed");
}

TEST(ContractTransports, WaitTensorFreedRefusesABlockedCaller) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto made = made_by(maker);
  (void)mobula::wait({made}, {.timeout = wait_timeout, .fetch_local = false});
  const auto text = mobula::get(maker.call<&Holder::wait_freed>(20.0));
  EXPECT_EQ(text.substr(0, 8), "refused:") << text;
  EXPECT_TRUE(names_driver(text)) << text;
  EXPECT_NE(text.find("blocked in get or wait on this very call"), std::string::npos) << text;
  const auto view = mobula::get_view(maker.call<&Holder::wait_freed>(20.0));
  const std::string viewed(view.begin(), view.end());
  EXPECT_EQ(viewed.substr(0, 8), "refused:") << viewed;
}

// A wait for all refs needs each of them. A wait for one of two may end with the other.
TEST(ContractTransports, WaitTensorFreedRefusesAWaitingCaller) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto made = made_by(maker);
  (void)mobula::wait({made}, {.timeout = wait_timeout, .fetch_local = false});
  const std::vector waited{mobula::put(std::string("here")), maker.call<&Holder::wait_freed>(20.0)};
  (void)mobula::wait(waited, {.num_returns = 2});
  const auto text = mobula::get(waited.back());
  EXPECT_EQ(text.substr(0, 8), "refused:") << text;
  EXPECT_NE(text.find("blocked in get or wait on this very call"), std::string::npos) << text;
}

// The policy decides at every size: one float, the heap, shared memory, and around 64 KiB. The
// value of a model also has a small tensor next to large ones.
TEST(ContractTransports, WaitTensorFreedIgnoresSizes) {
  const auto maker = mobula::actor<Holder>.remote();
  for (const int count : {1, 1000, 5000, 16 * 1024, 16 * 1024 + 65}) {
    auto made = made_by(maker, count);
    EXPECT_TRUE(names_driver(got(maker.call<&Holder::wait_freed>(0.1)))) << count;
    EXPECT_EQ(got(maker.call<&Holder::write>()), "shared") << count;
    EXPECT_EQ(sum_of(got(made)), ramp_sum(count));
    made = {};
    EXPECT_EQ(got(maker.call<&Holder::wait_freed>(20.0)), "freed") << count;
    EXPECT_EQ(got(maker.call<&Holder::write>()), "written") << count;
  }
  for (const int count : {1000, many}) {
    const auto made = maker.method<&Holder::make_mixed>()
                          .options({.tensor_transport = Transport::automatic})
                          .remote(count);
    EXPECT_EQ(sum_of(got(made).layers.at(1)), ramp_sum(count));
    EXPECT_EQ(got(maker.call<&Holder::write>()), "shared") << "one float next to " << count;
  }
  const Tensor own = ramp(10);
  auto put = mobula::put(own, {.tensor_transport = Transport::automatic});
  EXPECT_THROW(mobula::wait_tensor_freed(own, wait_timeout), TensorSharedError);
  put = {};
  mobula::wait_tensor_freed(own, wait_timeout);
}

// The driver waits for a relay, the relay for the maker's call, and the call for the driver's ref.
TEST(ContractTransports, WaitTensorFreedRefusesACircle) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto relay = mobula::actor<Relay>.remote(maker);
  const auto made = made_by(maker);
  (void)mobula::wait({made}, {.timeout = wait_timeout, .fetch_local = false});
  const auto text = mobula::get(relay.call<&Relay::wait_freed>());
  EXPECT_EQ(text.substr(0, 8), "refused:") << text;
  EXPECT_TRUE(names_driver(text)) << text;
  EXPECT_NE(text.find("2 calls"), std::string::npos) << text;
}

TEST(ContractTransports, LogsTheLatestTransfers) {
  const auto maker = mobula::actor<Holder>.remote();
  const auto made =
      maker.method<&Holder::make>().options({.tensor_transport = Transport::tcp}).remote(many);
  (void)got(made);
  const auto log = mobula::transfer_log();
  ASSERT_FALSE(log.empty());
  EXPECT_LE(log.size(), 1024u);
  const Transfer& last = log.back();
  EXPECT_EQ(last.path, "tcp");
  EXPECT_EQ(last.bytes, many * 4);
  EXPECT_GE(last.queue_time.count(), 0);
  EXPECT_GT(last.wire_time.count(), 0);
  EXPECT_FALSE(last.peer.empty());
  EXPECT_TRUE(last.group.empty() && last.operation.empty());
}

TEST(ContractCollectives, MembersReduceAndDisagree) {
  const auto a = mobula::actor<Holder>.remote();
  const auto b = mobula::actor<Holder>.remote();
  const CollectiveGroup group =
      mobula::create_collective_group({a, b}, Transport::automatic, "pair");
  EXPECT_EQ(group.name(), "pair");
  EXPECT_EQ(group.size(), 2);
  EXPECT_EQ(group.transport(), Transport::automatic);
  EXPECT_EQ(group.actor_ids(), (std::vector{a.id(), b.id()}));
  EXPECT_EQ(group.id().size(), 32u);
  EXPECT_EQ(got(mobula::put(group)).id(), group.id());
  EXPECT_EQ(got(a.call<&Holder::describe>("pair")), "pair 0 of 2");
  EXPECT_EQ(got(b.call<&Holder::describe>("pair")), "pair 1 of 2");
  EXPECT_FALSE(got(a.call<&Holder::knows>("other")));
  const std::vector reduced{a.call<&Holder::reduce>("pair"), b.call<&Holder::reduce>("pair")};
  for (const Tensor& each : got(reduced)) EXPECT_EQ(sum_of(each), 2 * ramp_sum(4));
  const std::vector refused{a.call<&Holder::refuse>("pair", 4), b.call<&Holder::refuse>("pair", 5)};
  for (const auto& each : got(refused)) EXPECT_EQ(each, "mismatch intact ranks");
  const std::vector again{a.call<&Holder::refuse>("pair", 4), b.call<&Holder::refuse>("pair", 4)};
  for (const auto& each : got(again)) EXPECT_EQ(each, "reduced");
  mobula::destroy_collective_group(group);
}

TEST(ContractCollectives, HaveAllOperations) {
  const auto a = mobula::actor<Holder>.remote();
  const auto b = mobula::actor<Holder>.remote();
  const auto group =
      mobula::create_collective_group(std::vector<AnyActor>{a, b}, Transport::automatic, "all");
  const std::vector sums{a.call<&Holder::all_operations>("all"),
                         b.call<&Holder::all_operations>("all")};
  const auto both = got(sums);
  EXPECT_EQ(both.at(0) + both.at(1),
            2 * 6 + 2 * 6 + 12 + (0 + 1 + 4 + 9) + 4 * 6 + 2 * 6 + 2 * 6 + 4 * 6 + 6);
  mobula::destroy_collective_group(group);
}

TEST(ContractCollectives, LostMembersBreakTheGroup) {
  const auto a = mobula::actor<Holder>.remote();
  auto b = mobula::actor<Holder>.remote();
  const auto group = mobula::create_collective_group({a, b}, Transport::automatic, "broken");
  const auto waiting = a.call<&Holder::refuse>("broken", 4);
  EXPECT_TRUE(mobula::testing::is_pending(waiting));
  mobula::kill(b);
  EXPECT_EQ(got(waiting).substr(0, 13), "broken broken");
  EXPECT_EQ(got(a.call<&Holder::refuse>("broken", 4)).substr(0, 6), "broken");
  mobula::destroy_collective_group(group);
}

}  // namespace
}  // namespace mobula::contract::tensors
