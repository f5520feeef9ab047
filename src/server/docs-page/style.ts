/** The whole look of the page, in the colours that the reader's system asks for. */
export const STYLE = `
:root { color-scheme: light dark; --text: #1d2129; --soft: #5c6470; --line: #e1e4e8; --back: #fff;
  --panel: #f6f7f9; --link: #0b5cad; --get: #1a7f4b; --post: #9a5b00; --patch: #6b46c1; --delete: #c0312b }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7eb; --soft: #9aa4b2; --line: #2c323b; --back: #14171c; --panel: #1c2027;
    --link: #7ab8ff; --get: #5fd39a; --post: #f0b35a; --patch: #b79cff; --delete: #ff8a80 }
}
* { box-sizing: border-box }
body { margin: 0; color: var(--text); background: var(--back); display: flex;
  font: 16px/1.55 system-ui, sans-serif }
nav { width: 22rem; flex: none; height: 100vh; position: sticky; top: 0; overflow-y: auto;
  padding: 1.5rem; background: var(--panel); border-right: 1px solid var(--line); font-size: 14px }
nav h2 { font-size: 12px; text-transform: uppercase; letter-spacing: .08em; color: var(--soft);
  margin: 1.5rem 0 .25rem }
nav ul { list-style: none; margin: 0; padding: 0 }
nav li { margin: .2rem 0; overflow-wrap: anywhere }
main { flex: 1; min-width: 0; max-width: 62rem; padding: 1.5rem 2.5rem 6rem }
section { border-top: 1px solid var(--line); padding: 1.25rem 0; scroll-margin-top: 1rem }
h1 { font-size: 1.8rem } h3 { font-size: 1.05rem; margin: .2rem 0 .6rem }
h4 { font-size: 13px; margin: 1.1rem 0 .3rem; color: var(--soft) }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
  overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 14px }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0;
  border-top: 1px solid var(--line); overflow-wrap: break-word }
th { width: 11rem; font-weight: 500 } th b { color: var(--delete) }
.method { font: 600 11px/1 ui-monospace, Menlo, Consolas, monospace; color: var(--soft) }
.get { color: var(--get) } .post { color: var(--post) } .patch { color: var(--patch) }
.delete { color: var(--delete) }
@media (max-width: 60rem) {
  body { display: block } nav { width: auto; height: auto; position: static; border: 0 }
  main { padding: 1.5rem } th { width: auto }
}
`
