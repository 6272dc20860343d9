// SPDX-License-Identifier: Apache-2.0
import { mount } from 'svelte';
import './ui/theme.css';
import App from './App.svelte';
import { applyTheme } from './state/theme.svelte';

applyTheme();
mount(App, { target: document.getElementById('app')! });
