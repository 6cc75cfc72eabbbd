// Chain inference: arrays in, arrays out. An array argument is anything nanobind takes as a contiguous CPU array of the
// right type, or the address of one as an int (torch tensors come that way, since their array protocols cost
// more than a small batch), or 0 for null. Sizes and lifetimes are the caller's business:
// trellis.chain and trellis.chain.torch are the callers, and check everything first.
#include "chain/inference.h"

#include "bind/labels.h"
#include "bind/python.h"
#include "bind/stl.h"

#include <algorithm>
#include <numeric>

namespace nb = nanobind;

namespace trellis::bind {

using namespace chain;

namespace {

// Spans as arrays: spans[S, 3] = (sequence, begin, end), their tags one after another, and the
// masks before[S, labels] and after[S, labels].
std::vector<Span> span_list(const int64_t* spans, int64_t count, const int64_t* tags, const uint8_t* before,
                            const uint8_t* after, int64_t labels) {
  std::vector<Span> list;
  for (int64_t s = 0; s < count; ++s) {
    const int64_t* span = spans + 3 * s;
    list.push_back({s, span[0], span[1], span[2], tags, before ? before + s * labels : nullptr,
                    after ? after + s * labels : nullptr});
    tags += span[2] - span[1];
  }
  return list;
}

// The sum of what `losses` gives, times scale.
template <typename R, typename F>
Outcome total(const Inference<R>& inference, double scale, R* out, F losses) {
  std::vector<double> found(size_t(inference.layout().sequences()));
  const Outcome outcome = losses(found.data());
  *out = R(scale * std::accumulate(found.begin(), found.end(), 0.0));
  return outcome;
}

// The labels of each sequence's tokens, of an array with one per row.
nb::list lists(const Layout& layout, const int64_t* labels, int64_t rows, int64_t L) {
  nb::list numbers;
  for (int64_t j = 0; j < L; ++j) numbers.append(j);
  return name_lists(numbers, labels, rows, layout);
}

// Of one pass over all sequences.
template <typename R>
int64_t work_of(const Inference<R>& inference) {
  return inference.layout().tokens() * inference.labels() * inference.labels();
}

template <typename R>
void bind(nb::module_& m, const char* name) {
  using I = Inference<R>;
  nb::class_<I>(m, name)
      .def("__init__",
           [](I* self, std::shared_ptr<Layout> layout, nb::handle emissions, nb::handle transitions, nb::handle start,
              nb::handle end, int64_t L, nb::handle edges) {
             new (self) I(std::move(layout), pointer<const R>(emissions), pointer<const R>(transitions),
                          pointer<const R>(start), pointer<const R>(end), L, pointer<const R>(edges));
           })
      .def("log_partition", unlocked_method(&I::log_partition))
      .def("score", unlocked_function([](const I& self, const int64_t* tags, double* out) { return self.score(tags, out); }))
      .def("nll", unlocked_method(&I::nll))
      .def("total_nll",  // the sum over the batch times scale, as one number of type R
           unlocked_function([](I& self, const int64_t* tags, double scale, R* out) {
             return total(self, scale, out, [&](double* losses) { return self.nll(tags, losses, false); });
           }))
      .def("total_nll_gradient",  // the same, and its gradient
           unlocked_function([](I& self, const int64_t* tags, double scale, R* out, int64_t rows, R* emissions,
                                R* transitions, R* start, R* end, int64_t edge_count, R* edges) {
             return total(self, scale, out, [&](double* losses) {
               return self.forward_backward(tags, losses, scale, {emissions, transitions, start, end, rows, edges, edge_count});
             });
           }))
      .def("gradient",
           [](I& self, nb::handle weights, int64_t rows, nb::handle emissions, nb::handle transitions,
              nb::handle start, nb::handle end, int64_t edge_count, nb::handle edges) {
             const double* w = pointer<const double>(weights);
             const Gradient<R> to{pointer<R>(emissions), pointer<R>(transitions), pointer<R>(start), pointer<R>(end),
                                  rows, pointer<R>(edges), edge_count};
             nb::gil_scoped_release release;
             self.gradient(w, to);
           })
      .def("marginals",
           unlocked_function([](I& self, double* out, int64_t rows, R* emissions, R* transitions, R* start, R* end) {
             return self.forward_backward(nullptr, out, 1.0, {emissions, transitions, start, end, rows});
           }, work_of<R>))
      .def("pairwise", unlocked_method(&I::pairwise))
      .def("viterbi",
           unlocked_function([](I& self, int64_t* tags, int64_t rows, double* scores) { return self.viterbi(tags, rows, scores); },
                             work_of<R>))
      .def("viterbi_rounded",  // the same with scores of type R
           unlocked_function([](I& self, int64_t* tags, int64_t rows, R* scores) {
             std::vector<double> found(size_t(self.layout().sequences()));
             const Outcome outcome = self.viterbi(tags, rows, found.data());
             std::transform(found.begin(), found.end(), scores, [](double score) { return R(score); });
             return outcome;
           }))
      .def("viterbi_lists",
           [](I& self, int64_t rows, int64_t L) {
             std::vector<int64_t> tags(static_cast<size_t>(rows));
             std::vector<double> scores(size_t(self.layout().sequences()));
             const Report report = unlocked([&] { return self.viterbi(tags.data(), rows, scores.data()); });
             return nb::make_tuple(report, report.first ? nb::list() : lists(self.layout(), tags.data(), rows, L));
           })
      .def("entropy", unlocked_method(&I::entropy))
      .def("sample", unlocked_method(&I::sample))
      .def("spans",
           unlocked_function([](I& self, const int64_t* spans, int64_t count, const int64_t* tags, const uint8_t* before,
                                const uint8_t* after, const int64_t* state_labels, int64_t labels, double* out) {
             const SortedSpans sorted(span_list(spans, count, tags, before, after, labels), self.layout().sequences());
             return self.spans(sorted, state_labels, labels, out);
           }))
      .def("weighted_nll", unlocked_method(&I::weighted_nll))
      .def("weighted_nll_gradient", unlocked_method(&I::weighted_nll_gradient))
      .def_prop_ro("tags",  // those that a loss was asked for, by token
                   [](const I& self) {
                     return to_numpy(std::vector<int64_t>(self.kept_tags().begin(), self.kept_tags().end()));
                   },
                   nb::rv_policy::move)
      .def("kbest", [](I& self, int64_t k) {
        std::vector<int64_t> counts, tags;
        std::vector<double> scores;
        const Report report = unlocked([&] { return self.kbest(k, counts, scores, tags); });
        return nb::make_tuple(report, to_numpy(std::move(counts)), to_numpy(std::move(scores)),
                              to_numpy(std::move(tags)));
      });
}

}  // namespace

void bind_inference(nb::module_& m) {
  nb::class_<Layout>(m, "Layout")
      .def_prop_ro("sequences", &Layout::sequences)
      .def_prop_ro("tokens", &Layout::tokens)
      .def_prop_ro("offsets", [](const Layout& layout) { return to_numpy(layout.offsets); },
                   nb::rv_policy::move)
      .def("lists",
           [](const Layout& layout, nb::handle labels, int64_t rows, int64_t L) {
             return lists(layout, pointer<const int64_t>(labels), rows, L);
           })
      .def_prop_ro("pairs", &Layout::pairs)
      .def_prop_ro("edge_rows", [](const Layout& layout) { return to_numpy(layout.edge_rows()); },
                   nb::rv_policy::move)
      .def_prop_ro("rows", [](const Layout& layout) { return to_numpy(layout.rows); },
                   nb::rv_policy::move);
  m.def("layout_of_lengths",
        [](nb::handle lengths, int64_t B, int64_t tokens) {
          return new Layout(layout_of_lengths(pointer<const int64_t>(lengths), B, tokens));
        });
  m.def("layout_of_mask",
        [](nb::handle mask, nb::handle tags, int64_t ignored, int64_t B, int64_t T, int64_t stride_b,
           int64_t stride_t) {
          return new Layout(layout_of_mask(pointer<const uint8_t>(mask), pointer<const int64_t>(tags),
                                                         ignored, B, T, stride_b, stride_t));
        });
  bind<float>(m, "InferenceFloat32");
  bind<double>(m, "InferenceFloat64");
}

}  // namespace trellis::bind
