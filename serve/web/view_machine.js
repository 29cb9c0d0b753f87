// Machine: the workers of the sweep with their slots, GPUs and faults, and what each node has done.
import { duration, el, num, table, whole } from './format.js'

export function mount(root, app) {
  const workers = el('section', { class: 'card', 'aria-label': 'Workers' }),
    nodes = el('section', { class: 'card', 'aria-label': 'Nodes' })
  root.replaceChildren(el('div', { class: 'grid' }, workers, nodes))
  return () => {
    const { study, overview } = app, list = overview.workers,
      fault = w => w.fault && w.fault.state !== 'good' ? `${w.fault.state}: ${w.fault.error}` : null, who = overview.coordinator
    workers.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Workers'),
      el('small', {}, who ? `coordinator: process ${who.pid} on ${who.host}` : 'no coordinator is running')),
      list.length ? table(['node', 'trials running', 'slots', 'CPUs', 'GPUs', 'fault'],
        list.map(w => [w.node ?? w.id, w.running, w.places, w.slots, w.gpus, fault(w)]))
        : el('p', { class: 'empty' }, who ? 'No worker has joined yet.' : `No worker: the sweep is ${overview.state}.`))
    const r = overview.resources, some = (n, word) => `${num(n)} ${word}${n === 1 ? '' : 's'}`
    const needs = [r.nodes > 1 && some(r.nodes, 'node'), some(r.ranks, 'rank'), r.gpus > 0 && some(r.gpus, 'GPU'),
      r.cpus > 0 && `${r.cpus} CPU${r.cpus === 1 ? '' : 's'} per rank`].filter(Boolean)
    const by = new Map(), L = study.leases
    for (let k = 0; k < L.n; k++) {
      const name = study.text(L.node.v[k]) ?? '?', n = by.get(name) ?? { trials: 0, failed: 0, seconds: 0 }
      by.set(name, n)
      n.trials++
      n.failed += study.isFailed(L.trial.v[k])
      if (L.end.v[k] > L.begin.v[k]) n.seconds += L.end.v[k] - L.begin.v[k]
    }
    nodes.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Nodes'),
      el('small', {}, `each trial needs ${needs.join(', ')}`)),
      by.size ? table(['node', 'leases', 'of failed trials', 'share failed', 'time of trials'],
        [...by].map(([name, n]) => [name, n.trials, n.failed, `${num(Number((100 * n.failed / n.trials).toPrecision(2)))} %`,
        duration(n.seconds)]))
        : el('p', { class: 'empty' }, study.n ? study.n === 1 ? '1 trial waits for a worker.' : `${whole(study.n)} trials wait for a worker.` : 'No trial has started yet.'))
  }
}
