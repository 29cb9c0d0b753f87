// Runs: the jobs of `drover run` on this machine, as `drover ps` lists them.
import { fetchData } from './main.js'
import { duration, el, table } from './format.js'

export const needsNoSweep = true
const EVERY_MS = 3000

export function mount(root) {
  const card = el('section', { class: 'card', 'aria-label': 'Running jobs' },
    el('div', { class: 'head' }, el('h2', {}, 'Running jobs')), el('p', { class: 'loading' }, 'Loading …'))
  root.replaceChildren(card)
  let timer = null, drawn = ''
  async function load() {
    clearTimeout(timer)
    if (drawn && !root.isConnected) return
    try { show(await fetchData('jobs')) } catch (e) { card.lastChild.replaceWith(el('p', { class: 'failed', role: 'alert' },
      e.message)); drawn = 'failed' }
    timer = setTimeout(load, EVERY_MS)
  }
  function show(jobs) {
    const list = jobs.filter(j => j.sweep === undefined || j.sweep === null || j.trial === undefined || j.trial === null),
      text = JSON.stringify(list)
    if (drawn === text && Date.now() % 10 > 0 && !list.length) return
    drawn = text
    card.lastChild.replaceWith(list.length ? table(['job', 'ranks', 'running for', 'nodes', 'directory', 'command'],
      list.map(j => [j.id ?? j.job, j.ranks || null, duration((Date.now() - j.started_ms) / 1000), j.nodes, j.dir,
      el('span', { title: j.command }, j.command)]))
      : el('p', { class: 'empty' }, 'No job runs on this machine. ', el('code', {}, 'drover run -np 2 ./train'),
        ' starts one; it is listed here while it runs.'))
  }
  load()
  return () => {}
}
