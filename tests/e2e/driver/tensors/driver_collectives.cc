// Scenarios about collective groups.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using mobula::CollectiveError;
using mobula::CollectiveGroup;
using mobula::ReduceOp;
using mobula::Tensor;
using mobula::Transport;
using std::chrono::seconds;

// Small integers, whose sums are equal in every order and type.
template <class T>
T number(int rank, std::int64_t index) {
  return static_cast<T>((index * 7 + rank * 3) % 11);
}

template <class T>
Tensor operand(int rank, std::int64_t count, int salt = 0) {
  Tensor tensor = Tensor::empty({count}, mobula::dtype_of<T>);
  const auto elements = tensor.mutable_view<T>();
  for (std::int64_t i = 0; i < count; ++i)
    elements[static_cast<std::size_t>(i)] = number<T>(rank + salt, i);
  return tensor;
}

// Returns the differences, or an empty string.
template <class T, class Expected>
std::string check(const std::string& what, const Tensor& tensor, std::int64_t count,
                  Expected expected) {
  if (tensor.dtype() != mobula::dtype_of<T> || tensor.shape() != std::vector<std::int64_t>{count}) {
    return what + ": another shape or type; ";
  }
  const auto elements = tensor.view<T>();
  for (std::int64_t i = 0; i < count; ++i) {
    if (elements[static_cast<std::size_t>(i)] != expected(i))
      return what + ": another element at " + std::to_string(i) + "; ";
  }
  return "";
}

class Singer {
 public:
  int rank(const CollectiveGroup& group) { return group.rank(); }
  std::int64_t pid() { return ::getpid(); }
  std::string node() { return mobula::current().node_id; }

  // All operations with `count` elements each.
  template <class T>
  std::string all_of(const CollectiveGroup& group, std::int64_t count) {
    const int me = group.rank();
    const int n = group.size();
    const int root = n - 1;
    const auto sum = [&](std::int64_t i) {
      T total{};
      for (int rank = 0; rank < n; ++rank) total = static_cast<T>(total + number<T>(rank, i));
      return total;
    };
    const auto greatest = [&](std::int64_t i) {
      T most = number<T>(0, i);
      for (int rank = 1; rank < n; ++rank) most = std::max(most, number<T>(rank, i));
      return most;
    };
    std::string wrong;
    const Tensor mine = operand<T>(me, count);
    wrong += check<T>("all_reduce", group.all_reduce(mine), count, sum);
    wrong += check<T>("max", group.all_reduce(mine, {.op = ReduceOp::max}), count, greatest);
    Tensor in_place = operand<T>(me, count);
    group.all_reduce_in_place(in_place);
    wrong += check<T>("in place", in_place, count, sum);
    wrong += check<T>("broadcast", group.broadcast(me == root ? mine : Tensor(), {.root = root}),
                      count, [&](std::int64_t i) { return number<T>(root, i); });
    in_place = operand<T>(me, count);
    group.broadcast_in_place(in_place, {.root = 0});
    wrong += check<T>("broadcast in place", in_place, count,
                      [&](std::int64_t i) { return number<T>(0, i); });
    const Tensor reduced = group.reduce(mine, {.root = root});
    if (me == root) wrong += check<T>("reduce", reduced, count, sum);
    if (me != root && reduced.size() != 0)
      wrong += "reduce gives something to others than the root; ";
    const auto gathered = group.all_gather(mine);
    if (static_cast<int>(gathered.size()) != n) return wrong + "all_gather of another size; ";
    for (int rank = 0; rank < n; ++rank) {
      wrong += check<T>("all_gather", gathered[static_cast<std::size_t>(rank)], count,
                        [&](std::int64_t i) { return number<T>(rank, i); });
    }
    const auto at_root = group.gather(mine, {.root = root});
    if (static_cast<int>(at_root.size()) != (me == root ? n : 0))
      return wrong + "gather of another size; ";
    for (int rank = 0; rank < static_cast<int>(at_root.size()); ++rank) {
      wrong += check<T>("gather", at_root[static_cast<std::size_t>(rank)], count,
                        [&](std::int64_t i) { return number<T>(rank, i); });
    }
    std::vector<Tensor> parts;
    for (int rank = 0; rank < n; ++rank) parts.push_back(operand<T>(me * n, count, rank));
    const auto of_root = [&](std::int64_t i) { return number<T>(root * n + me, i); };
    wrong += check<T>("scatter",
                      group.scatter(me == root ? parts : std::vector<Tensor>(), {.root = root}),
                      count, of_root);
    const auto exchanged = group.all_to_all(parts);
    for (int rank = 0; rank < n; ++rank) {
      wrong += check<T>("all_to_all", exchanged[static_cast<std::size_t>(rank)], count,
                        [&](std::int64_t i) { return number<T>(rank * n + me, i); });
    }
    wrong += check<T>("reduce_scatter", group.reduce_scatter(operand<T>(me, count * n)), count,
                      [&](std::int64_t i) { return sum(me * count + i); });
    group.barrier();
    if (n > 1) {
      // Around the ring: members of even rank send first.
      const int next = (me + 1) % n;
      const int before = (me + n - 1) % n;
      Tensor came;
      if (me % 2 == 0) group.send(mine, next);
      came = group.receive(before);
      if (me % 2 != 0) group.send(mine, next);
      wrong += check<T>("send and receive", came, count,
                        [&](std::int64_t i) { return number<T>(before, i); });
    }
    return wrong;
  }

  std::string all_operations(const CollectiveGroup& group, const std::string& type,
                             std::int64_t count) {
    if (type == "float64") return all_of<double>(group, count);
    if (type == "int32") return all_of<std::int32_t>(group, count);
    if (type == "uint8") return all_of<std::uint8_t>(group, count);
    return all_of<float>(group, count);
  }

  // The bits of a sum whose value depends on the order of its terms.
  std::vector<std::uint32_t> bits_of_sum(const CollectiveGroup& group, std::int64_t count) {
    Tensor mine = Tensor::empty({count});
    const auto elements = mine.mutable_view<float>();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      elements[i] =
          1.0f / static_cast<float>(3 + i % 97 + 7 * static_cast<std::size_t>(group.rank()));
    }
    const Tensor sum = group.all_reduce(mine, {.op = ReduceOp::average});
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(count));
    std::memcpy(bits.data(), sum.data(), bits.size() * 4);
    return bits;
  }

  // The group's entries in the transfer log: "PATH operation" if bytes and times are plausible.
  std::string logged(const std::string& name) {
    std::string all;
    for (const auto& each : mobula::transfer_log()) {
      if (each.group != name) continue;
      const bool sound = each.bytes > 100'000 && each.sent_bytes > 100'000 &&
                         each.wire_time > mobula::Duration(0) && each.peer.empty();
      all += each.path + (each.encrypted ? " encrypted " : " ") + each.operation +
             (sound ? "; " : " with odd numbers; ");
    }
    return all;
  }

  double sum_by_name(const std::string& name, double mine) {
    return mobula::collective_group(name).all_reduce(Tensor::from({mine})).view<double>()[0];
  }

  // "what: ranks: intact" of the CollectiveError of an operation, or "done".
  std::string all_reduce_outcome(const CollectiveGroup& group, std::int64_t count,
                                 const std::string& how, double timeout) {
    try {
      mobula::ReduceOptions options{.timeout = mobula::Duration(timeout)};
      if (how == "max") options.op = ReduceOp::max;
      if (how == "barrier") {
        group.barrier({.timeout = mobula::Duration(timeout)});
      } else if (how == "int32") {
        (void)group.all_reduce(operand<std::int32_t>(group.rank(), count), options);
      } else {
        (void)group.all_reduce(operand<float>(group.rank(), count), options);
      }
      return "done";
    } catch (const CollectiveError& error) {
      std::string text = error.reason() + ":";
      for (const int rank : error.ranks()) text += " " + std::to_string(rank);
      return text + (error.intact() ? ": intact" : ": broken");
    } catch (const mobula::TaskCancelledError&) {
      return "cancelled";
    } catch (const mobula::InvalidRequestError&) {
      return "invalid";
    }
  }
  std::string reduce_for_ever(const CollectiveGroup& group, std::int64_t count) {
    while (true) {
      const auto outcome = all_reduce_outcome(group, count, "", 60);
      if (outcome != "done") return outcome;
    }
  }
  std::string send_outcome(const CollectiveGroup& group, int to) {
    try {
      group.send(operand<float>(0, 10), to, {.timeout = seconds(30)});
      return "done";
    } catch (const CollectiveError& error) {
      return error.reason();
    }
  }
  std::string wait_at(const std::string& pipe) { return hold(pipe); }
  void create_with(const std::vector<mobula::ActorHandle<Singer>>& all, const std::string& name) {
    (void)mobula::create_collective_group(all, Transport::automatic, name);
  }
  void destroy(const CollectiveGroup& group) { mobula::destroy_collective_group(group); }

 private:
};

class Listener {
 public:
  double sum_by_name(const std::string& name, double mine) {
    return mobula::collective_group(name).all_reduce(Tensor::from({mine})).view<double>()[0];
  }
};

using Choir = std::vector<mobula::ActorHandle<Singer>>;

Choir choir(int members, const std::string& elsewhere = "") {
  Choir all;
  for (int i = 0; i < members; ++i) {
    mobula::ActorOptions options{.num_cpus = 0};
    if (!elsewhere.empty() && i % 2 == 1) options.resources = {{elsewhere, 1}};
    all.push_back(mobula::actor<Singer>.options(options).remote());
  }
  return all;
}

template <auto M, class... Args>
auto everybody(const Choir& all, const Args&... args) {
  std::vector<decltype(all[0].template call<M>(args...))> refs;
  for (const auto& each : all) refs.push_back(each.template call<M>(args...));
  return mobula::get(refs, seconds(120));
}

Transport transport_of(const std::string& name) {
  static const std::map<std::string, Transport> names = {{"tcp", Transport::tcp},
                                                         {"shm", Transport::shm},
                                                         {"gloo", Transport::gloo},
                                                         {"ucx", Transport::ucx}};
  const auto at = names.find(name);
  return at == names.end() ? Transport::automatic : at->second;
}

// Arguments: a transport, the number of members, a resource that every second member needs.
int collective_operations(const Words& arguments) {
  Report report;
  const int members = std::stoi(arguments.at(1));
  const auto all = choir(members, arguments.size() > 2 ? arguments[2] : "");
  const auto group = mobula::create_collective_group(all, transport_of(arguments.at(0)), "choir");
  report.equal("size", group.size(), members);
  const auto ranks = everybody<&Singer::rank>(all, group);
  for (int i = 0; i < members; ++i) report.equal("rank", ranks[static_cast<std::size_t>(i)], i);
  for (const std::int64_t count : {0, 1, 1000, (1 << 18) + 1}) {
    for (const std::string type : {"float32", "float64", "int32", "uint8"}) {
      if (count > 1000 && type != "float32" && type != "uint8") continue;
      for (const auto& wrong : everybody<&Singer::all_operations>(all, group, type, count)) {
        report.equal((type + ", " + std::to_string(count)).c_str(), wrong, "");
      }
    }
  }
  for (const std::int64_t count : {5, 100'000}) {
    const auto once = everybody<&Singer::bits_of_sum>(all, group, count);
    const auto again = everybody<&Singer::bits_of_sum>(all, group, count);
    for (int i = 0; i < members; ++i) {
      report.holds("the same bits at all", once[static_cast<std::size_t>(i)] == once[0]);
      report.holds("and again", again[static_cast<std::size_t>(i)] == once[0]);
    }
  }
  mobula::destroy_collective_group(group);
  for (const auto& outcome :
       everybody<&Singer::all_reduce_outcome>(all, group, std::int64_t{1}, std::string(), 30.0)) {
    report.equal("an operation of a destroyed group", outcome, "destroyed:: broken");
  }
  mobula::destroy_collective_group(group);
  return report.exit_code();
}

// Transfers of a group appear in the log of each member and, while the driver waits, in the
// cluster's lists. Arguments: the transport, and a resource that places the other members
// elsewhere.
int collective_transfers(const Words& arguments) {
  Report report;
  const auto all = choir(3, arguments.size() > 1 ? arguments[1] : "");
  const auto group = mobula::create_collective_group(all, transport_of(arguments.at(0)), "logged");
  everybody<&Singer::bits_of_sum>(all, group, std::int64_t{100'000});
  const std::string way = arguments.at(0) == "tcp" ? "tcp encrypted" : "shm";
  const std::vector<std::string> others{"1, 2", "0, 2", "0, 1"};
  const auto logs = everybody<&Singer::logged>(all, std::string("logged"));
  for (std::size_t rank = 0; rank < logs.size(); ++rank) {
    report.equal("the log of transfers", logs[rank],
                 way + " all_reduce(average), float32 [100000] with ranks " + others[rank] + "; ");
  }
  tell("logged");
  hear();
  return report.exit_code();
}

int collective_groups(const Words&) {
  Report report;
  const auto all = choir(3);
  const auto& a = all[0];
  const auto& b = all[1];
  const auto& c = all[2];
  auto other = mobula::actor<Listener>.options({.num_cpus = 0}).remote();
  // Ranks follow the order of the members. An actor is in two groups. Two operations run at once in
  // different groups.
  const auto first = mobula::create_collective_group({b, a}, Transport::automatic, "first");
  const auto second = mobula::create_collective_group({a, c}, Transport::shm, "second");
  const auto mixed =
      mobula::create_collective_group({mobula::AnyActor(c), other}, Transport::tcp, "mixed");
  report.equal("rank of a in the first", mobula::get(a.call<&Singer::rank>(first), seconds(30)), 1);
  report.equal("and in the second", mobula::get(a.call<&Singer::rank>(second), seconds(30)), 0);
  const auto one = b.call<&Singer::sum_by_name>("first", 1.0);
  const auto two = c.call<&Singer::sum_by_name>("second", 2.0);
  const auto three = a.call<&Singer::sum_by_name>("second", 4.0);
  const auto four = a.call<&Singer::sum_by_name>("first", 8.0);
  report.equal("first", mobula::get(one, seconds(30)), 9.0);
  report.equal("second", mobula::get(two, seconds(30)), 6.0);
  report.equal("second", mobula::get(three, seconds(30)), 6.0);
  report.equal("first", mobula::get(four, seconds(30)), 9.0);
  const auto five = c.call<&Singer::sum_by_name>("mixed", 5.0);
  report.equal("of two classes",
               mobula::get(other.call<&Listener::sum_by_name>("mixed", 6.0), seconds(30)), 11.0);
  report.equal("of two classes", mobula::get(five, seconds(30)), 11.0);
  // A group of one member.
  const auto alone = mobula::create_collective_group({a}, Transport::automatic, "alone");
  report.equal("alone", mobula::get(a.call<&Singer::sum_by_name>("alone", 3.0), seconds(30)), 3.0);

  throws<mobula::InvalidRequestError>(report, "no members",
                                      [] { (void)mobula::create_collective_group(Choir()); });
  throws<mobula::InvalidRequestError>(report, "one twice", [&] {
    (void)mobula::create_collective_group({a, b, a});
  });
  throws<mobula::InvalidRequestError>(report, "a handle of none", [&] {
    (void)mobula::create_collective_group({a, mobula::ActorHandle<Singer>()});
  });
  throws<mobula::InvalidRequestError>(report, "by the store", [&] {
    (void)mobula::create_collective_group({a, b}, Transport::object_store);
  });
  throws<mobula::TransferError>(report, "by an unavailable transport", [&] {
    (void)mobula::create_collective_group({a, b}, Transport::nccl);
  });
  throws<mobula::TransferError>(report, "by a transport that cannot serve groups", [&] {
    (void)mobula::create_collective_group({a, b}, Transport::cuda_ipc);
  });
  throws<mobula::InvalidRequestError>(report, "an operation of the driver",
                                      [&] { first.barrier(); });
  throws<mobula::NotFoundError>(report, "a name here",
                                [] { (void)mobula::collective_group("first"); });
  throws<mobula::TaskError>(report, "an actor outside the group",
                            [&] { mobula::get(c.call<&Singer::rank>(first), seconds(30)); });
  try {
    (void)mobula::create_collective_group({a, b}, Transport::automatic, "second");
    report.fail("a name that is taken");
  } catch (const CollectiveError& error) {
    report.holds("names the member", error.ranks() == std::vector<int>{0});
    report.equal("why", error.reason(), "create");
  }
  // The failed creation left no state: b can use the name at once.
  mobula::destroy_collective_group(second);
  const auto anew = mobula::create_collective_group({c, b}, Transport::automatic, "second");
  report.equal("rank", mobula::get(b.call<&Singer::rank>(anew), seconds(30)), 1);
  // A member destroys the group.
  mobula::get(a.call<&Singer::destroy>(first), seconds(30));
  report.equal(
      "at the other",
      mobula::get(b.call<&Singer::all_reduce_outcome>(first, std::int64_t{1}, std::string(), 30.0),
                  seconds(60))
          .substr(0, 7),
      "broken:");
  const auto again = mobula::create_collective_group({a, b}, Transport::automatic, "first");
  report.equal("its name is free", again.size(), 2);
  mobula::kill(c);
  throws<mobula::ActorDiedError>(report, "killed, some time", [&] {
    for (int i = 0; i < 10'000; ++i) mobula::get(c.call<&Singer::rank>(anew), seconds(30));
  });
  throws<mobula::ActorDiedError>(report, "a dead one", [&] {
    (void)mobula::create_collective_group({a, c}, Transport::automatic, "third");
  });
  report.equal("the others are well",
               mobula::get(a.call<&Singer::sum_by_name>("alone", 3.0), seconds(30)), 3.0);
  return report.exit_code();
}

// Members are busy while groups are created. The argument is a named pipe.
int collective_busy(const Words& arguments) {
  Report report;
  const auto all = choir(3);
  const auto busy = all[1].call<&Singer::wait_at>(arguments.at(0));
  const auto group = mobula::create_collective_group(all, Transport::automatic, "busy");
  report.equal("made while one is busy", group.size(), 3);
  // Two members create groups at once. Each group contains both members.
  const auto one = all[0].call<&Singer::create_with>(all, "one");
  const auto two = all[2].call<&Singer::create_with>(Choir{all[2], all[1], all[0]}, "two");
  mobula::get(one, seconds(60));
  mobula::get(two, seconds(60));
  { std::ofstream(arguments.at(0)) << "go\n"; }
  report.equal("it was busy", mobula::get(busy, seconds(30)), "go");
  std::vector<mobula::ObjectRef<double>> sums;
  for (const std::string name : {"one", "two", "busy"}) {
    for (const auto& each : all) sums.push_back(each.call<&Singer::sum_by_name>(name, 1.0));
  }
  for (const auto& sum : sums) report.equal("sum", mobula::get(sum, seconds(60)), 3.0);
  // The driver's handle of the group still lists all members.
  report.equal("the handle keeps no member alive", group.actor_ids().size(), std::size_t{3});
  return report.exit_code();
}

int collective_mismatches(const Words& arguments) {
  Report report;
  const auto all = choir(3);
  const auto group = mobula::create_collective_group(all, transport_of(arguments.at(0)));
  const auto outcomes = [&](std::int64_t count, const std::string& how) {
    std::vector<mobula::ObjectRef<std::string>> refs;
    for (std::size_t i = 0; i < all.size(); ++i) {
      refs.push_back(i == 1 ? all[i].call<&Singer::all_reduce_outcome>(group, count, how, 60.0)
                            : all[i].call<&Singer::all_reduce_outcome>(group, std::int64_t{1000},
                                                                       std::string(), 60.0));
    }
    return mobula::get(refs, seconds(120));
  };
  for (int round = 0; round < 2; ++round) {
    for (const auto& each : outcomes(1001, ""))
      report.equal("another shape", each, "mismatch: 1: intact");
    for (const auto& each : outcomes(1000, "int32"))
      report.equal("another type", each, "mismatch: 1: intact");
    for (const auto& each : outcomes(1000, "max"))
      report.equal("another reduction", each, "mismatch: 1: intact");
    for (const auto& each : outcomes(1000, "barrier"))
      report.equal("another operation", each, "mismatch: 1: intact");
    for (const auto& each : outcomes(1000, "")) report.equal("then the same", each, "done");
  }
  const auto one = all[0].call<&Singer::send_outcome>(group, 1);
  const auto two = all[1].call<&Singer::send_outcome>(group, 0);
  report.equal("both send", mobula::get(one, seconds(60)), "mismatch");
  report.equal("both send", mobula::get(two, seconds(60)), "mismatch");
  for (const auto& each : outcomes(1000, "")) report.equal("then they agree", each, "done");
  return report.exit_code();
}

int collective_deaths(const Words& arguments) {
  Report report;
  const auto all = choir(4, arguments.size() > 1 ? arguments[1] : "");
  const auto transport = transport_of(arguments.at(0));
  for (const std::int64_t count : {10, 1 << 20}) {
    auto victim = mobula::actor<Singer>.options({.num_cpus = 0}).remote();
    Choir members{all[0], victim, all[1], all[2], all[3]};
    const auto group = mobula::create_collective_group(members, transport, "of five");
    std::vector<mobula::ObjectRef<std::string>> refs;
    const auto pid = mobula::get(victim.call<&Singer::pid>(), seconds(30));
    for (const auto& each : members)
      refs.push_back(each.call<&Singer::reduce_for_ever>(group, count));
    // Kills a member during an operation that never ends by itself.
    const auto waited = mobula::wait(
        refs, {.num_returns = 1, .timeout = mobula::Duration(0.3), .fetch_local = false});
    report.equal("they sing", waited.ready.size(), std::size_t{0});
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    for (std::size_t i = 0; i < refs.size(); ++i) {
      if (i == 1) continue;
      report.equal("at each other", mobula::get(refs[i], seconds(60)), "broken: 1: broken");
    }
    throws<mobula::ActorDiedError>(report, "at itself", [&] { mobula::get(refs[1], seconds(60)); });
    report.equal(
        "and ever after",
        mobula::get(all[0].call<&Singer::all_reduce_outcome>(group, count, std::string(), 5.0),
                    seconds(60)),
        "broken: 1: broken");
    mobula::destroy_collective_group(group);
    // A new group without the dead member.
    const auto anew = mobula::create_collective_group(all, transport, "of five");
    for (const auto& sum : everybody<&Singer::sum_by_name>(all, std::string("of five"), 1.0))
      report.equal("anew", sum, 4.0);
    mobula::destroy_collective_group(anew);
  }
  return report.exit_code();
}

// The argument is a named pipe.
int collective_time_outs(const Words& arguments) {
  Report report;
  const auto all = choir(3);
  const auto make = [&](const std::string& name) {
    return mobula::create_collective_group(all, Transport::automatic, name);
  };
  const auto group = make("slow");
  const auto one =
      all[0].call<&Singer::all_reduce_outcome>(group, std::int64_t{10}, std::string(), 0.3);
  const auto two =
      all[2].call<&Singer::all_reduce_outcome>(group, std::int64_t{10}, std::string(), 60.0);
  report.equal("who waits", mobula::get(one, seconds(60)), "timed_out: 1: broken");
  report.equal("a member with a longer timeout", mobula::get(two, seconds(60)),
               "broken: 1: broken");
  report.equal("who comes late",
               mobula::get(all[1].call<&Singer::all_reduce_outcome>(group, std::int64_t{10},
                                                                    std::string(), 60.0),
                           seconds(60)),
               "broken: 1: broken");
  mobula::destroy_collective_group(group);

  const auto other = make("slow");
  const auto cancelled =
      all[0].call<&Singer::all_reduce_outcome>(other, std::int64_t{10}, std::string(), 60.0);
  const auto waits =
      all[1].call<&Singer::all_reduce_outcome>(other, std::int64_t{10}, std::string(), 60.0);
  (void)mobula::wait(std::vector{cancelled},
                     {.num_returns = 1, .timeout = mobula::Duration(0.3), .fetch_local = false});
  mobula::cancel(cancelled);
  throws<mobula::TaskCancelledError>(report, "the cancelled call",
                                     [&] { mobula::get(cancelled, seconds(60)); });
  report.equal("the other", mobula::get(waits, seconds(60)), "broken: 0: broken");
  mobula::destroy_collective_group(other);

  const auto ended = make("slow");
  const auto within =
      all[0].call<&Singer::all_reduce_outcome>(ended, std::int64_t{10}, std::string(), 60.0);
  (void)mobula::wait(std::vector{within},
                     {.num_returns = 1, .timeout = mobula::Duration(0.2), .fetch_local = false});
  mobula::destroy_collective_group(ended);
  report.equal("destroyed in the middle",
               mobula::get(within, seconds(60)).substr(0, 9) != "timed_out", true);
  for (const auto& each : all)
    report.holds("all live", mobula::get(each.call<&Singer::pid>(), seconds(30)) > 0);

  // An actor that is not constructed yet does not reply.
  auto never =
      mobula::actor<Singer>.options({.num_cpus = 0, .resources = {{"nowhere", 1}}}).remote();
  try {
    (void)mobula::create_collective_group({all[0], never}, Transport::automatic, "never",
                                          {.create_timeout = mobula::Duration(0.5)});
    report.fail("a member that is not there");
  } catch (const CollectiveError& error) {
    report.holds("named", error.ranks() == std::vector<int>{1});
  }
  (void)arguments;
  return report.exit_code();
}

// Arguments: an unknown transport, the text of the error, a resource of each member.
int collective_refused(const Words& arguments) {
  Report report;
  Choir all;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    all.push_back(
        mobula::actor<Singer>.options({.num_cpus = 0, .resources = {{arguments[i], 1}}}).remote());
  }
  try {
    (void)mobula::create_collective_group(all, transport_of(arguments.at(0)), "refused");
    report.fail("no error");
  } catch (const mobula::TransferError& error) {
    report.equal("path", error.path(), arguments.at(0));
    report.holds(error.what(),
                 std::string(error.what()).find(arguments.at(1)) != std::string::npos);
  }
  (void)mobula::create_collective_group(all, Transport::automatic, "refused");
  for (const auto& sum : everybody<&Singer::sum_by_name>(all, std::string("refused"), 1.0))
    report.equal("by another way", sum, 2.0);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> collective_scenarios() {
  return {{"collective_refused", &collective_refused},
          {"collective_operations", &collective_operations},
          {"collective_groups", &collective_groups},
          {"collective_transfers", &collective_transfers},
          {"collective_busy", &collective_busy},
          {"collective_mismatches", &collective_mismatches},
          {"collective_deaths", &collective_deaths},
          {"collective_time_outs", &collective_time_outs}};
}

}  // namespace mobula::e2e
