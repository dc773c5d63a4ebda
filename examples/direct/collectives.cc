// Actors that average their models without a server.
#include <mobula/mobula.h>

#include <iostream>
#include <string>
#include <vector>

class Learner {
 public:
  explicit Learner(float start) : weights_(mobula::Tensor::zeros({1000})) {
    for (float& each : weights_.mutable_view<float>()) each = start;
  }

  // One round: a local step, then the mean over all members.
  float round(const std::string& group_name) {
    const auto group = mobula::collective_group(group_name);
    for (float& each : weights_.mutable_view<float>()) each += static_cast<float>(group.rank());
    group.all_reduce_in_place(weights_, {.op = mobula::ReduceOp::average});
    return weights_.view<float>()[0];
  }

  // All members take the values of the first.
  float agree(const mobula::CollectiveGroup& group) {
    group.broadcast_in_place(weights_, {.root = 0});
    return weights_.view<float>()[0];
  }

  // A mismatch that all members detect; the group stays usable.
  std::string disagree(const mobula::CollectiveGroup& group) {
    try {
      (void)group.all_reduce(mobula::Tensor::zeros({group.rank() == 2 ? 7 : 8}));
      return "no error";
    } catch (const mobula::CollectiveError& error) {
      return error.intact() ? "rank " + std::to_string(error.ranks().at(0)) + " differs"
                            : error.what();
    }
  }

 private:
  mobula::Tensor weights_;
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  std::vector<mobula::ActorHandle<Learner>> learners;
  for (const float start : {0.0f, 10.0f, 20.0f})
    learners.push_back(mobula::actor<Learner>.remote(start));
  const auto group =
      mobula::create_collective_group(learners, mobula::Transport::automatic, "learners");

  const auto all = [&](auto call) {
    std::vector<decltype(call(learners[0]))> refs;
    for (const auto& each : learners) refs.push_back(call(each));
    return mobula::get(refs, std::chrono::seconds(60));
  };
  bool good = true;
  for (const float mean :
       all([](const auto& each) { return each.template call<&Learner::round>("learners"); })) {
    std::cout << "mean " << mean << "\n";
    good = good && mean == 11.0f;  // of 0, 11 and 22
  }
  for (const float same :
       all([&](const auto& each) { return each.template call<&Learner::agree>(group); })) {
    good = good && same == 11.0f;
  }
  for (const auto& text :
       all([&](const auto& each) { return each.template call<&Learner::disagree>(group); })) {
    std::cout << text << "\n";
    good = good && text == "rank 2 differs";
  }
  mobula::destroy_collective_group(group);
  return good ? 0 : 1;
}
