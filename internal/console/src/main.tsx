import { render } from 'preact'
import { whoAmI } from './api'
import { App } from './app'
import { listenToKeys } from './keys'
import { start } from './live'
import { listenToLinks } from './route'
import { applyTheme } from './theme'

applyTheme()
listenToLinks()
listenToKeys()
void whoAmI()
start()
const root = document.getElementById('app')!
root.textContent = ''
render(<App />, root)
